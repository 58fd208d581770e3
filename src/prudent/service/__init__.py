"""The decision service: many journals behind HTTP, with keys, metrics, a web page, and a client.

A server (``prudent serve``) holds *slots*: named bandits, each with a journal of its own. The event loop parses and
answers; a thread for each busy slot decides and learns. Requests that wait for the same slot are decided together and
committed in one transaction, so a slot serves many more requests a second than the disk does commits.

Everything that must survive is in the store: the journals, and the registry of slots. A server can be killed at any
moment and started again, on this machine or another, with the address of the store alone.
"""

from __future__ import annotations

from .client import AsyncClient, Client

__all__ = ["AsyncClient", "Client"]
