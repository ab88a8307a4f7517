"""Entry point of ``python -m loopwarden.deploy.fleet``."""

from loopwarden.deploy.fleet.record import main

main()
