"""Verdicts on the claims: their error rates by simulation, other thresholds, and the file that pages take counts from.

- ``python -m benchmarks.verdicts rates RESULTS --workers N`` simulates 2,000 studies of every claim in each world where
  it is false, with the noise of the datasets in RESULTS (a folder of ``prudent reproduce``), and writes what it finds
  to ``src/prudent/reproduction/error_rates.json``. It fails if a claim is called reproduced in more than 1% of the
  studies of any world. What was found of each claim is kept in RESULTS/error-rates, by the content of its samples and
  of the rules: a run that was killed goes on where it was.
- ``python -m benchmarks.verdicts summary RESULTS --workers N`` judges the claims, also at half and at double of the
  thresholds that are ours, writes ``docs/verdicts.json`` and puts its tables into ``docs/numbers.md``.
- ``python -m benchmarks.verdicts episodes RESULTS --workers N`` simulates the lakes with half, all and twice the
  episodes, which ``summary`` does too, and changes their rows only. One simulation of twice the episodes, kept in
  RESULTS/episodes, has all three. It fails if a verdict at all the episodes is not that of ``docs/verdicts.json``.
- ``python -m benchmarks.verdicts page`` puts the tables of ``docs/verdicts.json`` into ``docs/numbers.md`` once more.

RESULTS may hold some of the studies only: ``rates`` and ``summary --stored`` then keep what the files have of others.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

from prudent._support.content import Content
from prudent._support.output import write
from prudent.reproduction import (
    SCALES,
    STUDIES,
    Claim,
    choices,
    distributions,
    draws,
    error_rates,
    judge,
    load_datasets,
    rules,
)
from prudent.reproduction.claims import BEYOND, Data, Statement, counts
from prudent.reproduction.error_rates import FILE, ErrorRate, error_rate, record
from prudent.reproduction.error_rates import STUDIES as SIMULATED
from prudent.reproduction.rules import ERROR, Verdict
from prudent.reproduction.runner import computed
from prudent.reproduction.runs.base import Run
from prudent.reproduction.runs.simulation import SimulationRun
from prudent.reproduction.scale import Scale
from prudent.reproduction.studies import lake_long, lake_regret
from prudent.reproduction.studies.lake_levels import MULTIPLES
from prudent.reproduction.study import Coordinates

ROOT = Path(__file__).parent.parent
RATES = ROOT / "src" / "prudent" / "reproduction" / FILE
SUMMARY = ROOT / "docs" / "verdicts.json"
PAGE = ROOT / "docs" / "numbers.md"
LAKES = ("lake-regret", "lake-levels")  # in this order: the second takes longer and has the runs of the first
MARK = re.compile(r"(<!-- verdicts: (\w+) -->\n).*?(\n<!-- end -->)", flags=re.DOTALL)


# -- error rates -------------------------------------------------------------------------------------------


def cases(results: Path) -> Iterator[tuple[str, str, str, Any, float, int]]:
    """Yield claim, reading, study, samples, error rate and replications at the first look of what rules judge."""
    for name, data in load_datasets(results).items():
        study = STUDIES[name]
        for statement in study.claims:
            if statement.rule is None:
                continue
            for reading, (_, samples, error) in statement.cases(data, study.readings).items():
                count = min(len(values) for values in samples.values())
                if len(statement.rule.multiples) > 1:  # some quantities have grown
                    count = min(count, int(json.loads(data.attrs["spec"])["scale"]["lake_replications"]))
                yield statement.id, reading, name, samples, error, count


def _rate(name: str, claim: str, samples: Any, error: float, studies: int, count: int, part: Path) -> ErrorRate:
    """Return the error rate of a claim; rules are found by name, since they do not travel between processes.

    What was found is kept in a file of its own, so that a run that is killed goes on where it was.
    """
    (statement,) = (each for each in STUDIES[name].claims if each.id == claim)
    assert statement.rule is not None
    key = Content([_code(), statement.rule.words, dict(samples), error, studies, count]).hexdigest()
    file = part / f"{key[:24]}.json"
    if not file.exists():
        rate = error_rate(statement.rule, samples, error, studies, replications=count)
        write(file, json.dumps(asdict(rate)).encode())
    return ErrorRate(**json.loads(file.read_text(encoding="utf-8")))


def _code() -> list[str]:
    """Return the source of the rules and of their simulation."""
    return [
        Path(str(module.__file__)).read_text(encoding="utf-8")
        for module in (choices, distributions, draws, error_rates, rules)
    ]


def claim_order() -> list[str]:
    """Return the claims of all studies, in the order of pages."""
    return [statement.id for study in STUDIES.values() for statement in study.claims]


def rates(results: Path, workers: int, studies: int, file: Path) -> int:
    """Measure and write the error rates; return 1 if one exceeds what is promised."""
    found: dict[str, dict[str, ErrorRate]] = {}
    part = results / "error-rates"
    part.mkdir(exist_ok=True)
    began = time.perf_counter()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = {
            pool.submit(_rate, name, claim, samples, error, studies, count, part): (claim, reading)
            for claim, reading, name, samples, error, count in cases(results)
        }
        for i, job in enumerate(as_completed(jobs), 1):
            (claim, reading), rate = jobs[job], job.result()
            shares = f"{rate.edge:6.2%} at the edge, {rate.false:6.2%} beyond"
            place = f"[{i}/{len(jobs)}, {time.perf_counter() - began:.0f} s]"
            print(f"{place} {shares}  {claim}, {reading or 'as written'}: {rate.worst}", flush=True)
        for job, (claim, reading) in jobs.items():  # in the order of the claims
            found.setdefault(claim, {})[reading] = job.result()
    each = [
        (f"{claim} ({reading or 'as written'})", rate) for claim, its in found.items() for reading, rate in its.items()
    ]
    wrong = [name for name, rate in each if rate.largest > ERROR]
    claims = {claim: record(its) for claim, its in found.items()}
    if file.exists():
        claims = json.loads(file.read_text(encoding="utf-8"))["claims"] | claims
    content = {
        "studies": studies,
        "promised": ERROR,
        "scale": next(iter(load_datasets(results).values())).attrs["scale"],
        "claims": {claim: claims[claim] for claim in claim_order() if claim in claims},
    }
    write(file, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
    print(f"{time.perf_counter() - began:.0f} s; more than {ERROR:.0%}: {', '.join(wrong) or 'none'}")
    return int(bool(wrong))


# -- thresholds --------------------------------------------------------------------------------------------


def _verdicts(claim: Claim) -> dict[str, str]:
    return {"as_written": str(claim.as_written), "verdict": claim.verdict}


def _otherwise(statement: Statement, name: str, data: Any, **changed: Any) -> dict[str, str]:
    return _verdicts(replace(statement, **changed).judge(data, STUDIES[name].readings))


def thresholds(results: Path, workers: int | None, simulate: bool) -> dict[str, list[dict[str, Any]]]:
    """Return the verdicts of claims with a threshold of ours at half and at double of it, by claim.

    Other numbers of episodes have to be simulated; without that, claims at the end of a run have no rows.
    """
    data = load_datasets(results)
    found: dict[str, list[dict[str, Any]]] = {}

    def add(statement: Statement, threshold: str, verdicts: Mapping[str, str]) -> None:
        found.setdefault(statement.id, []).append({"threshold": threshold, **verdicts})

    for name, study in STUDIES.items():
        for statement in study.claims if name in data else ():
            rule = statement.rule
            if rule is None or not rule.threshold:
                continue
            for factor in (0.5, 1.0, 2.0):
                scaled = rule.scaled(factor)
                add(statement, scaled.threshold, _otherwise(statement, name, data[name], rule=scaled))
    moments = (
        ("lake-regret", lake_regret.pays_early, lake_regret.SHORT),
        ("lake-long", lake_long.costs_late, lake_long.LONG),
    )
    for name, find, moment in moments:
        for statement in STUDIES[name].claims if name in data else ():
            if getattr(statement.find, "func", None) is find:
                for episodes in (moment // 2, moment, 2 * moment):
                    if episodes <= int(data[name].episode[-1]):
                        at = _otherwise(statement, name, data[name], find=partial(find, episodes))
                        add(statement, f"after {episodes:,} episodes", at)
    if simulate:
        found |= by_episodes(results, workers, LAKES, int(next(iter(data.values())).attrs["seed"]))
    return found


def at_moments(
    name: str, scale: Scale, folder: Path, workers: int | None, seed: int, moments: Sequence[int]
) -> dict[int, Data]:
    """Return the datasets of a study of the lakes with several numbers of episodes, from one simulation of the longest.

    The first episodes of a run are those of a shorter run, bit by bit: the agents do not know how long it will be. So
    each replication is simulated once. Looks at growing data are taken for each number of episodes by itself.
    """
    study, found = STUDIES[name], {}
    longest = max(moments)
    for moment in sorted(moments, reverse=True):
        plan: Mapping[Coordinates, Run] | None = study.plan(scale)
        while plan:
            there = {where: cast(SimulationRun, part) for where, part in plan.items()}
            shown = {where: replace(part, seed=seed, steps=moment, points=1) for where, part in there.items()}
            runs = {where: replace(part, steps=longest, also=tuple(moments)) for where, part in shown.items()}
            with computed(folder, list(runs.values()), workers, None, None, None) as result_of:
                results = {
                    where: {"regret": result_of(part)[0]["regret"][: part.replications, part.times == moment]}
                    for where, part in runs.items()
                }
            data = found[moment] = study.dataset(scale, results, shown)
            cells = sorted({(part.replications, str(where[:-1])) for where, part in shown.items()}, reverse=True)
            print(f"{name}, {moment} episodes: {', '.join(f'{size} {cell}' for size, cell in cells[:3])}", flush=True)
            plan = study.further(scale, data) if study.further else None
    return found


def by_episodes(
    results: Path, workers: int | None, names: Sequence[str], seed: int, scale: Scale = SCALES["paper"]
) -> dict[str, list[dict[str, Any]]]:
    """Return the verdicts of the claims about the end of a run with half, all and twice the episodes, by claim.

    What is simulated is kept in RESULTS/episodes: a run that was killed goes on where it was.
    """
    moments = (scale.episodes // 2, scale.episodes, 2 * scale.episodes)
    most = MULTIPLES[scale.lake_looks - 1] * scale.lake_replications
    size = f", at most {most:,} replications" if scale.lake_looks < len(MULTIPLES) else ""
    found: dict[str, list[dict[str, Any]]] = {}
    for name in names:
        study = STUDIES[name]
        data = at_moments(name, scale, results / "episodes", workers, seed, moments)
        for statement in study.claims:
            if getattr(statement.find, "func", None) is not lake_regret.pays_early:  # its moment is not the end
                found[statement.id] = [
                    {
                        "threshold": f"{moment:,} episodes{size if study.further else ''}",
                        **_verdicts(statement.judge(data[moment], study.readings)),
                    }
                    for moment in moments
                ]
                print(f"{statement.id}: {json.dumps(found[statement.id], indent=1)}", flush=True)
    return found


# -- the summary and the page ------------------------------------------------------------------------------


def summary(results: Path, workers: int | None, simulate: bool = True) -> dict[str, Any]:
    """Return what the pages say of the claims."""
    datasets = load_datasets(results)
    claims = judge(datasets)
    order = claim_order()
    recorded = [data.attrs for data in datasets.values()]
    return {
        "scale": ", ".join(dict.fromkeys(str(each["scale"]) for each in recorded)),
        "seed": ", ".join(dict.fromkeys(str(each["seed"]) for each in recorded)),
        "counts": counts(claims),
        "claims": [
            {
                "id": claim.id,
                "statement": claim.statement,
                "whose": "ours" if claim.source == BEYOND else "paper",
                "verdict": claim.verdict,
                "kind": str(claim.kind),
                "as_written": str(claim.as_written),
                "needed": claim.needed,
                "readings": {each["reading"]: str(each["verdict"]) for each in claim.readings},
            }
            for claim in sorted(claims, key=lambda claim: order.index(claim.id))
        ],
        "thresholds": thresholds(results, workers, simulate),
    }


def joined(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return a summary with the claims of another one that are not in it."""
    claims = {each["id"]: each for each in (*before["claims"], *now["claims"])}
    listed = [claims[claim] for claim in claim_order() if claim in claims]
    tally = counts(())
    for each in listed:
        tally[each["whose"]][each["kind"]] += 1
    kept = {claim: rows for claim, rows in before["thresholds"].items() if claim in claims}
    return {**now, "counts": tally, "claims": listed, "thresholds": kept | now["thresholds"]}


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def tables(content: Mapping[str, Any], measured: Mapping[str, Any]) -> dict[str, str]:
    """Return the tables of the page, by their marks."""
    heads = ["claim", "as written", "summary", "called reproduced where it is false"]

    def alarm(claim: Mapping[str, Any]) -> str:
        its = measured["claims"].get(claim["id"])
        if not its:
            return "not simulated yet" if claim["id"] != "optimal-policy-table" else "exact"
        edge, false = (max(rate[kind] for rate in its.values()) for kind in ("edge", "false"))
        return f"{edge:.2%} at the edge, {false:.2%} beyond"

    def needed(claim: Mapping[str, Any]) -> str:
        return f" ({claim['needed']:,} replications would decide)" if claim["needed"] else ""

    def listed(whose: str) -> str:
        rows = [
            [each["statement"], each["as_written"] + needed(each), each["verdict"], alarm(each)]
            for each in content["claims"]
            if each["whose"] == whose
        ]
        return _table(heads, rows)

    numbers = _table(
        ["verdict", "claims of the paper", "claims of ours"],
        [
            [verdict, str(content["counts"]["paper"][verdict]), str(content["counts"]["ours"][verdict])]
            for verdict in map(str, reversed(Verdict))
        ],
    )
    others = _table(
        ["claim", "threshold", "as written", "summary"],
        [
            [name, each["threshold"], each["as_written"], each["verdict"]]
            for name, rows in content["thresholds"].items()
            for each in rows
        ],
    )
    return {"counts": numbers, "paper": listed("paper"), "ours": listed("ours"), "thresholds": others}


def page(text: str, content: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    """Return the text of a page with its tables."""
    made = tables(content, measured)
    return MARK.sub(lambda mark: mark[1] + made[mark[2]] + mark[3], text)


def main(arguments: list[str]) -> int:
    """Run what the arguments say; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdicts", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("rates", "summary", "episodes", "page"))
    parser.add_argument("results", nargs="?", type=Path, help="a folder of `prudent reproduce`")
    parser.add_argument("--workers", type=int, default=2, help="processes, or threads of simulations")
    parser.add_argument("--studies", type=int, default=SIMULATED, help="simulated studies in each world")
    looks = "episodes: how often the study of the best level may look at growing data"
    parser.add_argument("--looks", type=int, default=len(MULTIPLES), choices=range(1, len(MULTIPLES) + 1), help=looks)
    parser.add_argument("--out", type=Path, help="rates: the file to write")
    parser.add_argument("--stored", action="store_true", help="summary: simulate nothing, without other episodes")
    asked = parser.parse_args(arguments)
    if asked.what != "page" and asked.results is None:
        parser.error("name the folder of results")
    if asked.what == "rates":
        os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        return rates(asked.results, asked.workers, asked.studies, asked.out or RATES)
    if asked.what == "summary":
        content = summary(asked.results, asked.workers, not asked.stored)
        if asked.stored and len(content["claims"]) < len(claim_order()):
            content = joined(json.loads(SUMMARY.read_text(encoding="utf-8")), content)
        SUMMARY.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    content = json.loads(SUMMARY.read_text(encoding="utf-8"))
    if asked.what == "episodes":
        scale = replace(SCALES["paper"], lake_looks=asked.looks)
        rows = by_episodes(asked.results, asked.workers, LAKES, int(content["seed"]), scale)
        stored = {each["id"]: (each["as_written"], each["verdict"]) for each in content["claims"]}
        for claim, (_, now, _) in rows.items():
            if "at most" not in now["threshold"] and (now["as_written"], now["verdict"]) != stored[claim]:
                print(f"{claim}: {now['verdict']} now, but {stored[claim][1]} in {SUMMARY.name}: run summary again")
                return 1
        content["thresholds"] |= rows
        SUMMARY.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    measured = json.loads(RATES.read_text(encoding="utf-8"))
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), content, measured), encoding="utf-8")
    print(json.dumps(content["counts"], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
