"""Servers and databases that are killed under load lose nothing that they have acknowledged."""

import time

import _postgres
import pytest
from _service_kill import Load, free_port, start

import prudent as pr


def killed(store, kills, rng, database=None, servers=2):
    """Kill servers and the database at random moments; compare what was acknowledged with the record."""
    ports = [free_port() for _ in range(servers)]
    # SQLite loses nothing by a kill with NORMAL; PostgreSQL that is killed itself loses the last moments with it
    options = ("--synchronous", "NORMAL" if database is None else "FULL")
    running = [start(store, port, *options) for port in ports]
    load = None
    try:
        with pr.Client(f"http://127.0.0.1:{ports[0]}") as client:
            client.put_slot("home", arms=["a", "b", "c"], dim=2, seed=1)
        time.sleep(1.5)  # until the others know it
        load = Load(ports)
        for _ in range(kills):
            time.sleep(rng.uniform(0.1, 0.6))
            which = rng.integers(servers + (database is not None))
            if which == servers:
                database.kill()
                database.start()
            else:
                running[which].kill()
                running[which].wait(30)
                running[which] = start(store, ports[which], *options)
        time.sleep(1.0)
    finally:
        if load is not None:
            load.end()
        for server in running:
            server.kill()
            server.wait(30)
    return load


def require_all(live, load):
    """Every acknowledged decision and reward is there once, and every decision is that of its state."""
    rows = list(live.rows())
    assert live.verify() == len(rows)
    by_id = {row["id"]: row for row in rows}
    assert len(by_id) == len(rows)
    assert len(load.decided) > 20
    for id, arm, propensity in load.decided.values():
        assert (by_id[id]["arm"], by_id[id]["propensity"]) == (arm, propensity)
    for id, value in load.rewarded.items():
        assert by_id[id]["reward"] == value
    assert len({id for id, *_ in load.decided.values()}) == len(load.decided)
    assert set(load.refused) <= {"store-away", "registry-away", "starting", "stopping", "catching-up", "unknown-slot"}


def of_sqlite(folder, kills, rng):
    load = killed(f"sqlite:{folder}/store", kills, rng)
    (path,) = (folder / "store").glob("slot_*.db")
    with pr.Journal(path) as live:
        require_all(live, load)


def of_postgres(kills, rng):
    if _postgres.programs() is None:
        pytest.skip("no PostgreSQL on this machine")
    database = _postgres.Server()
    try:
        load = killed(database.address, kills, rng, database)
        import psycopg

        with psycopg.connect(database.address) as connection:
            ((name,),) = connection.execute("SELECT journal FROM prudent_service.slot").fetchall()
        with pr.Journal(database.address, name=name) as live:
            require_all(live, load)
    finally:
        database.close()


@pytest.mark.slow
@pytest.mark.parametrize("piece", range(5))
def test_150_kills_of_servers_on_sqlite(tmp_path, rng, piece):
    of_sqlite(tmp_path, 30, rng)


@pytest.mark.slow
@pytest.mark.parametrize("piece", range(5))
def test_150_kills_of_servers_and_of_postgres(rng, piece):
    of_postgres(30, rng)
