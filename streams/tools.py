"""What is known of particular tools: which calls only poll, and which send something to people.

The names are OpenClaw's. What a call is decides how its result is compared, so it is found once per call and kept
with it; a result often comes without the arguments.
"""

from __future__ import annotations

from typing import Any, Final

#: What a call does, as far as comparing its results is concerned. Plain integers: they are compared for every event.
OTHER: Final = 0
EXEC: Final = 1
PROCESS_POLL: Final = 2
PROCESS_LOG: Final = 3
OUTBOUND_MESSAGE: Final = 4
COMMAND_STATUS: Final = 5

#: Kinds of calls that only ask how something stands.
POLL_KINDS = frozenset({PROCESS_POLL, PROCESS_LOG, COMMAND_STATUS})

_KIND_BY_TOOL = {
    "exec": EXEC,
    "command_status": COMMAND_STATUS,
    "sessions_send": OUTBOUND_MESSAGE,
}
_PROCESS_ACTIONS = {"poll": PROCESS_POLL, "log": PROCESS_LOG}
_SENDING_ACTIONS = frozenset(
    {
        "send",
        "broadcast",
        "reply",
        "thread-reply",
        "sendWithEffect",
        "sendAttachment",
        "upload-file",
        "sticker",
        "poll",
    }
)
_CHAT_PROVIDERS = frozenset(
    {
        "telegram",
        "whatsapp",
        "discord",
        "slack",
        "signal",
        "imessage",
        "msteams",
        "feishu",
        "matrix",
        "line",
        "googlechat",
        "mattermost",
    }
)


def kind_by_name(tool_name: str) -> int:
    """Return what a call of this tool is when its arguments are not known."""
    return _KIND_BY_TOOL.get(tool_name, OTHER)


def kind_of_call(tool_name: str, args: Any) -> int:
    """Return what a call of this tool with these arguments is."""
    kind = _KIND_BY_TOOL.get(tool_name)
    if kind is not None:
        return kind
    if not isinstance(args, dict):
        return OTHER
    if tool_name == "process":
        action = args.get("action")
        return _PROCESS_ACTIONS.get(action, OTHER) if isinstance(action, str) else OTHER
    if tool_name == "message":
        action = args.get("action")
        sends = isinstance(action, str) and action in _SENDING_ACTIONS
        return OUTBOUND_MESSAGE if sends else OTHER
    if tool_name in _CHAT_PROVIDERS:
        recipient = args.get("to")
        sends = isinstance(recipient, str) and bool(recipient.strip())
        return OUTBOUND_MESSAGE if sends else OTHER
    return OTHER
