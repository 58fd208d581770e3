"""`prudent serve`: a decision service over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def serve(
    store: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="sqlite:FOLDER, or postgresql://USER@HOST/DATABASE.", show_default=False),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on (default: 127.0.0.1).", show_default=False)
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (default: 8000).", show_default=False)] = None,
    keys: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML file with the keys of callers.", show_default=False)
    ] = None,
    synchronous: Annotated[
        str | None,
        typer.Option(
            help="FULL survives power cuts and crashes of PostgreSQL; NORMAL may lose the last moments (default: FULL)."
        ),
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds to wait for the store (default: 5).")] = None,
    log_level: Annotated[str | None, typer.Option(help="info logs every request; warning only failures.")] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="serve.toml with these options and \\[limits].")
    ] = None,
) -> None:
    """Serve decisions over HTTP: many bandits, one store, keys, metrics, a web page.

    A key file:

    \b
        \\[keys]
        decide = "KEY"                               # role = key
        shop = {role = ["decide", "reward"], key = "KEY"}
        ops = {role = "admin", sha256 = "64 hexadecimal digits"}

    Without --keys everybody may do everything, and the server listens on this machine only.
    """
    from ..errors import ParameterError

    try:
        from ..service.server import read_config
        from ..service.server import serve as run
    except ImportError as error:
        text = f"prudent serve needs more packages: pip install prudent[serve] ({error})"
        raise ParameterError(text, code="missing-package") from None
    options: dict[str, Any] = {} if config is None else read_config(config)
    given = {"store": store, "host": host, "port": port, "keys": keys, "synchronous": synchronous, "timeout": timeout}
    options |= {name: value for name, value in (given | {"log_level": log_level}).items() if value is not None}
    if "store" not in options:
        text = "store is missing: give --store sqlite:FOLDER or --store postgresql://..."
        raise ParameterError(text, code="missing-argument", argument="store")
    run(**options)
