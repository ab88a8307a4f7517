"""What the worker tells over HTTP: metrics, whether it lives, whether it is ready, and why it is not."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from loopwarden.streams.plumbing.metrics import Metrics


class StatusServer:
    """Serves ``/metrics``, ``/health/live`` and ``/health/ready``. It answers from before the broker does."""

    def __init__(self, host: str, port: int, metrics: Metrics, why_not_ready: Callable[[], str | None]) -> None:
        self.host = host
        self.port = port
        self._metrics = metrics
        self._why_not_ready = why_not_ready
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen; raises OSError where the address is taken or not ours. Port 0 becomes the port that is given."""
        application = web.Application()
        application.router.add_get("/metrics", self._show_metrics)
        application.router.add_get("/health/live", self._show_live)
        application.router.add_get("/health/ready", self._show_ready)
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.host, self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _show_metrics(self, _request: web.Request) -> web.Response:
        body, content_type = self._metrics.exposition()
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _show_live(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "live"})

    async def _show_ready(self, _request: web.Request) -> web.Response:
        reason = self._why_not_ready()
        if reason is None:
            return web.json_response({"status": "ready"})
        return web.json_response({"status": reason}, status=503)
