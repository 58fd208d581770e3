"""The page of a decision: what to do, against today, how sure that is, what is assumed, what to measure next.

It shows what ``policy.json`` and ``policy.csv`` hold, for readers who know neither Bayes nor CVaR. Both files are
embedded, so that the page can be sent alone. ``LogStudy.report`` and ``Solution.report`` make the record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ..figures.base import Figure
from ..words import number, plural, plus_minus
from . import check as checks
from .frame import Part, attachment, document, figure_html, paragraphs
from .tables import Table, best

if TYPE_CHECKING:
    import pandas

ALL_STATES = 60  # up to so many states, the table shows all; of more, the SHOWN_STATES most visited
SHOWN_STATES = 40
SHOWN_ROWS = 10  # states that change, and pairs to measure
LARGEST_FILES = 8_000_000  # characters of policy.csv and policy.json that a page holds

WORDS = {
    "state, action": "Where the process is, and what can be done there: the words of the log.",
    "policy": "A rule that says what to do in each state.",
    "return": (
        "All rewards of one run from the start to its end, later ones counted less: a reward one step later is worth "
        "{discount:g} of the same reward now. A policy is good if its return is high."
    ),
    "what the data leaves possible": (
        "The log shows how often each action led where. Many true probabilities could have produced the same log: few "
        "if it is long, very different ones if an action was tried five times. All computations here run over these "
        "possible truths, each weighed by how well it fits the log (the posterior)."
    ),
    "risk level α": (
        "How cautious a policy is about what the data leaves open. At α = 0 it goes by the average over all possible "
        "truths. At α = 0.9 it judges each action by the average over the worst 10% of them, so that an action that is "
        "little known must promise more."
    ),
    "bad cases (CVaR)": "The average return in the worst {tail:.0%} of the possible truths.",
    "today": (
        "What is done today: how often the log takes each action in each state, or the policy that was given for "
        "comparison."
    ),
    "value": (
        "What the program compares when it chooses a policy: the Bayesian-risk value. It takes the risk anew at "
        "every step, as if every action in every state were as bad as can be at once. So at α above 0 the value lies "
        "below what the policy earns, often far below, and is no forecast; these are with how sure this is."
    ),
    "seen": "How many rows of the log tell of this action in this state.",
    "time there": "The share of the (discounted) time that the policy spends in the state.",
}


def render(
    record: Mapping[str, Any],
    policies: pandas.DataFrame,
    figures: Mapping[str, Figure],
    settings: Mapping[str, Any],
    table: str = "",
) -> str:
    """Return the page.

    Parameters
    ----------
    record : mapping
        Content of ``policy.json``.
    policies : pandas.DataFrame
        Content of ``policy.csv``: one row for each state and risk level.
    figures : mapping of str to Figure
        The figures ``"policy"``; ``"returns"`` unless the model is known, ``"levels"`` if there are several,
        ``"check"`` if there was one, and ``"states"`` if states were chosen.
    settings : mapping
        Options of the study, for the last section.
    table : str, optional
        Content of ``policy.csv``, which the page then holds.

    Returns
    -------
    str
        The HTML document.
    """
    rows, checked = record["rows"], record["check"]
    lead = "What to do in each state, worked out by prudent from " + (
        f"{record['log']} ({plural(rows['read'], 'row')}, {rows['used']:,} used)."
        if rows
        else f"the model {record['log']}."
    )
    facts = [f"discount {record['discount']:g}", f"start: {record['start']}", f"prudent {record['prudent']}"]
    if record["unit"]:
        facts.insert(0, f"all returns in {record['unit']}" if " " not in record["unit"] else record["unit"])
    head = f'<p class="lead">{escape(lead)}</p><p class="meta">{escape(" · ".join(facts))}</p>'
    several = len(record["levels"]) > 1
    parts = [
        Part("do", "What to do", _what_to_do(record, policies)),
        *([] if record["today"] is None else [Part("today", "Compared with today", _changes(record))]),
        Part("sure", "How sure this is", _sure(record, policies, figures)),
        Part("assumed", "What is assumed", _assumed(record)),
        Part("next", "What to measure next", _next(record)),
        *([Part("level", "Details: how much caution", _level(record, figures["levels"]))] if several else []),
        Part("values", "Details: values", figure_html(figures["policy"])),
        *(
            [Part("states", "Details: how the states were chosen", _chosen(record, figures["states"]))]
            if "states" in figures
            else []
        ),
        *([] if checked is None else [Part("tests", "Details: tests of the model", checks.tests(checked))]),
        Part("words", "Words", _words(record)),
        Part("run", "The run", _run(record, settings) + _attached(record, table)),
    ]
    return document(f"What to do: {record['log']}", head, parts)


def _with_error(value: float, standard_error: float) -> str:
    """Return a number with its 95% interval, unless that is negligible; "?" if too few draws say what it is."""
    half_width = 1.96 * standard_error
    if half_width != half_width:
        return f"{number(value)} ± ?"
    return plus_minus(value, half_width) if half_width > 1e-9 * abs(value) else number(value)


def _recommended(record: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(row for row in record["levels"] if row["recommended"])


def _level_name(level: Mapping[str, Any]) -> str:
    if "alpha" not in level:
        return "what is done today"
    return f"α = {level['alpha']:g}" + (" (recommended)" if level["recommended"] else "")


# -- sections ----------------------------------------------------------------------------------------------


def _amount(record: Mapping[str, Any], value: float, digits: int = 4) -> str:
    """Return a return with its unit."""
    return f"{number(value, digits)} {record['unit']}".rstrip()


def _what_to_do(record: Mapping[str, Any], policies: pandas.DataFrame) -> str:
    """Return the recommendation, the rules and the table of actions."""
    chosen = _recommended(record)
    lines = []
    if "alpha" in chosen:
        lowest = (
            ", the lowest that was asked for: " if chosen is record["levels"][0] and len(record["levels"]) > 1 else ": "
        )
        lines.append(f"Recommended is the policy of risk level {chosen['alpha']:g}{lowest}{_why_level(record)}")
    spread = (
        ""
        if not record["draws"]
        else (
            f", between {number(chosen['5%'])} and {number(chosen['95%'])} with 90% probability by what the data "
            f"leaves possible (if the model holds), and {_amount(record, chosen['cvar'])} in bad cases"
        )
    )
    lines.append(f"Started in {record['start']}, it earns {_amount(record, chosen['mean'])} on average{spread}.")
    serious = [] if record["check"] is None else [f for f in record["check"]["findings"] if f["severity"] == "serious"]
    alarm = ""
    if serious:
        found, first = plural(len(serious), "serious finding"), escape(serious[0]["message"])
        alarm = (
            f'<p class="missing"><strong>The numbers of this page may be wrong.</strong> The check of the model has '
            f"{found}, see below. The worst: {first}</p>"
        )
    warnings = "".join(f'<p class="missing">Caution: {escape(said)}.</p>' for said in record["said"])
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"{alarm}<ul>{items}</ul>{warnings}{_rules(record)}{_policy(record, policies)}"


def _rules(record: Mapping[str, Any]) -> str:
    """Return the rules to remember, and what they lose."""
    rules = record["rules"]
    if rules is None:
        return ""
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in rules["sentences"])
    if rules["states_differ"] == 0:
        text = "These rules are the whole policy."
    else:
        kind = "state" if record["horizon"] is None else "step-state pair"
        worst = f", and {number(rules['worst_loss'], 3)} in the worst tenth of what the data leaves possible"
        text = (
            f"Followed instead of the whole policy, these rules lose {_amount(record, rules['mean_loss'], 3)} of "
            f"{_amount(record, rules['value'])} on average{worst if record['draws'] else ''}. They differ from it in "
            f"{plural(rules['states_differ'], kind)} and {rules['time_differs']:.0%} of the time."
        )
    return f'<h3>Rules to remember</h3><ol class="rules">{items}</ol>{paragraphs(text)}'


def _sure(record: Mapping[str, Any], policies: pandas.DataFrame, figures: Mapping[str, Figure]) -> str:
    """Return findings, honest values and returns over the posterior."""
    checked = record["check"]
    html = "" if checked is None else checks.found(checked)
    html += paragraphs(*_thin(record, policies))
    if checked is not None:
        html += f"<h3>Honest values</h3>{checks.honest(checked, figures['check'], _recommended(record)['alpha'])}"
    if "returns" in figures:
        html += f"<h3>What the policies earn</h3>{_returns(record, figures['returns'])}"
    else:
        bound = _recommended(record)["certificate"]["error_bound"]
        html += paragraphs(f"The model is known, so the return is too: it is exact to {bound:.1g}.")
    return html


def _assumed(record: Mapping[str, Any]) -> str:
    """Return what no log can prove, and how the log was read."""
    checked = record["check"]
    if checked is not None:
        html = checks.assumed(checked)
    else:
        html = paragraphs(
            "The model holds: what follows an action depends on the state alone and will be as it was. This was not "
            "checked here."
        )
    return html + (_log(record) if record["summary"] else "")


def _attached(record: Mapping[str, Any], table: str) -> str:
    """Return links to the files that the page holds."""
    text = json.dumps(record, default=_plain, ensure_ascii=False)
    if not table or len(text) + len(table) > LARGEST_FILES:
        return ""
    finite = json.dumps(json.loads(text, parse_constant=lambda _: None), ensure_ascii=False)
    files = (
        attachment("policy.csv", "text/csv", table.encode()),
        attachment("policy.json", "application/json", finite.encode()),
    )
    return f'<p class="files">In this page, all states and levels: {" and ".join(files)}</p>'


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


def _by_honest(record: Mapping[str, Any]) -> bool:
    """Return whether the level is recommended by honest values."""
    return record["check"] is not None and not record["check"]["by_rows"]


def _why_level(record: Mapping[str, Any]) -> str:
    if len(record["levels"]) == 1:
        return "no other was compared."
    if "state_choice" in record:
        return (
            "it was chosen with the states: of the levels that held-out episodes cannot tell apart, the most cautious."
        )
    if _by_honest(record):
        values = record["check"]["recommended"]
        return (
            f"by data that it was not chosen from it earns {number(values['honest'])} "
            f"({number(values['low'])} to {number(values['high'])}), and no other level clearly more."
        )
    if record["alike"].startswith("all policies"):
        return "all levels act alike wherever the start leads to, so caution makes no difference here."
    if _recommended(record) is record["levels"][-1]:
        return "no lower one makes the bad cases as good. It is the highest that was asked for: try higher ones too."
    return "more caution would not make the bad cases clearly better."


def _thin(record: Mapping[str, Any], policies: pandas.DataFrame) -> list[str]:
    """Say how much of the time the policy relies on actions that were hardly tried."""
    chosen = policies[(policies["alpha"] == _recommended(record)["alpha"]) & policies["action"].notna()]
    rare = chosen[(chosen["evidence"] < 10) & (chosen["time_share"] > 0.0)]
    share = float(rare["time_share"].sum())
    text = (
        f"In {plural(len(rare), 'state')}, where it spends {share:.0%} of its time, this policy takes an action that "
        "the log has seen fewer than 10 times: look at these before you rely on it."
    )
    return [text] if share >= 0.01 else []


def _policy(record: Mapping[str, Any], policies: pandas.DataFrame) -> str:
    level = _recommended(record)["alpha"]
    by_level = {alpha: part.reset_index(drop=True) for alpha, part in policies.groupby("alpha")}
    chosen = by_level[level]
    acting = shown = chosen[chosen["action"].notna()]
    if len(acting) > ALL_STATES:
        shown = acting.sort_values("time_share", ascending=False, kind="stable").head(SHOWN_STATES)
        shown = shown.sort_index()  # the states in their own order
    rows = []
    for i, row in shown.iterrows():
        actions = {alpha: part["action"][i] for alpha, part in by_level.items()}
        first, only = actions[min(actions)], not np.isfinite(row["gap"])
        rows.append(
            {
                "state": _name(row["state"]),
                **{f"α = {alpha:g}": best(_name(a)) if a != first else _name(a) for alpha, a in actions.items()},
                "seen": f"{row['evidence']:,.6g}",
                "time there": f"{row['time_share']:.1%}",
                f"value, α = {level:g}": number(row["value"]),
                "next best": "only action" if only else _name(row["runner_up"]),
                "by how much less": "–" if only else number(row["gap"]),
            }
        )
    caption = "Actions by risk level; bold: not what the lowest level does"
    if len(shown) < len(acting):
        caption += f". The {len(shown)} most visited of {len(acting):,} states; all of them are in policy.csv"
    text = (
        "The columns α are the actions that each risk level takes. The rest tells of the recommended level, "
        f"{level:g}. Value is what the program compares, not a forecast; a small difference to the next best action "
        "says that both are about as good."
    )
    return paragraphs(text) + Table.of(caption, rows).html() if rows else paragraphs("There is nothing to choose.")


def _changes(record: Mapping[str, Any]) -> str:
    """Return where the recommended policy differs from what is done today, what matters most first."""
    today, chosen = record["today"], _recommended(record)
    text = [
        f"What is done today earns {_amount(record, today['mean'])} on average and {_amount(record, today['cvar'])} in "
        f"bad cases. The recommended policy earns {_amount(record, chosen['difference'], 3)} more, between "
        f"{number(chosen['difference_low'], 3)} and {number(chosen['difference_high'], 3)} with 90% probability by "
        f"what the data leaves possible; it is an improvement with a chance of {chosen['probability_better']:.0%}. "
        "Both policies face the same draws.",
        f"They differ in {plural(today['states_changed'], 'state')}, listed by how much they matter: what the new "
        "action earns more in the state, if today's way of acting follows, times how often the new policy is there. "
        "These numbers add up to the whole difference at the average of the possible truths.",
    ]
    rows = [
        {
            "state": _name(row["state"]),
            "today": _name(row["today"]),
            "new": _name(row["action"]) + ("" if row["probability"] > 0.9995 else f" ({row['probability']:.0%})"),
            "new action taken today": f"{row['today_share']:.0%}",
            "time there": f"{row['time_share']:.1%}",
            "adds to the mean return": number(row["contribution"], 3),
        }
        for row in today["changes"][:SHOWN_ROWS]
    ]
    if not rows:
        return paragraphs(text[0], "The recommended policy is what is done today.")
    caption = "Where the recommended policy differs from what is done today"
    if len(rows) < today["states_changed"]:
        caption += f": the {len(rows)} states that matter most of {today['states_changed']:,}; all are in policy.csv"
    return paragraphs(*text) + Table.of(caption, rows).html()


def _chosen(record: Mapping[str, Any], figure: Figure) -> str:
    choice = record["state_choice"]
    rows = [
        {
            "design": best(escape(row["design"])) if row["chosen"] else escape(row["design"]),
            "states": f"{row['states']:,}",
            "variance explained": f"{row['predicts']:.0%}",
            "enough data": f"{row['coverage']:.0%}",
            "never seen": f"{row['unseen']:.1%}",
            "best α": f"{row['alpha']:g}",
            "promised": number(row["promised"]),
            "held out": f"{number(row['honest'])} ({number(row['low'])} to {number(row['high'])})",
            "lowest gain over the log": number(row["gain"]),
        }
        for row in choice["designs"]
    ]
    text = (
        "The numbers of the log were cut into states in several ways. Each was learned from some episodes and judged "
        "on the others. Promised is what the model says that chose the policy; held out is what the other episodes "
        "say. The lowest gain is the least that any of these ways sees over what the log did. "
        + choice["sentence"]
        + "."
    )
    caption = "Ways to cut numbers into states; bold: chosen"
    return paragraphs(text) + Table.of(caption, rows).html() + figure_html(figure)


def _name(name: Any) -> str:
    return "–" if name is None or name != name else escape(str(name))


def _returns(record: Mapping[str, Any], figure: Figure) -> str:
    text = (
        f"The truth is not known, but the log says which truths are possible. For {record['draws']:,} of them, drawn "
        "at random by how well they fit the log, the exact return of each policy was worked out. All policies face the "
        "same draws. The table and the figure show how these returns spread: what to expect, and how sure it is.",
        "The Bayesian-risk value in the last column is another thing. It takes the risk anew at every step, as if "
        "everything were bad at once, and so may lie below all returns. It serves to choose policies, not to predict "
        "what they earn.",
    )
    rows = [
        {
            "risk level": _level_name(row),
            "mean": _with_error(row["mean"], row.get("mean_se", np.nan)),
            f"worst {1.0 - record['tail']:.0%}": _with_error(row["cvar"], row.get("cvar_se", np.nan)),
            "5% quantile": number(row["5%"]),
            "median": number(row["50%"]),
            "95% quantile": number(row["95%"]),
            "chance to be the best": f"{row['probability_best']:.0%}",
            **_against_today(record, row),
            "value (no forecast)": number(row["risk_value"]) if "risk_value" in row else "–",
        }
        for row in [*record["levels"], *([] if record["today"] is None else [record["today"]])]
    ]
    unit = f" ({record['unit']})" if record["unit"] else ""
    caption = f"Returns{unit} over what the data leaves possible, if the model holds; ±: error of the random draws, 95%"
    alike = f"Policies that {record['alike']}." if record["alike"].startswith("act alike") else ""
    return paragraphs(*text, alike) + Table.of(caption, rows).html() + figure_html(figure)


def _against_today(record: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, str]:
    """Return the cells that compare a row with what is done today."""
    if record["today"] is None:
        return {}
    own = "alpha" not in row
    return {
        "against today": "–" if own else _with_error(row["difference"], row["difference_se"]),
        "better than today": "–" if own else f"{row['probability_better']:.0%}",
    }


def _level(record: Mapping[str, Any], figure: Figure) -> str:
    text = (
        "More caution means that actions of which little is known must promise more. That costs some of the mean "
        "return, and should better the bad cases. Recommended is "
        + (
            "the lowest level whose bad cases are as good as those of all higher levels: "
            if not _by_honest(record)
            else "the lowest level whose honest value is not clearly below that of another: "
        )
        + f"{_recommended(record)['alpha']:g}. The numbers of this section assume that the model holds."
    )
    lowest = record["levels"][0]
    rows = [
        {
            "risk level": _level_name(row),
            "states that differ from α = 0": f"{row['states_differ']:,}",
            "time in them": f"{row['time_differs']:.1%}",
            f"mean against α = {lowest['alpha']:g}": number(row["mean"] - lowest["mean"], 3),
            f"bad cases against α = {lowest['alpha']:g}": number(row["cvar"] - lowest["cvar"], 3),
        }
        for row in record["levels"]
    ]
    return paragraphs(text) + Table.of("What caution changes, costs and buys", rows).html() + figure_html(figure)


def _next(record: Mapping[str, Any]) -> str:
    data = record["next_data"]
    if not data:
        return paragraphs("This was not worked out.")
    text = [
        f"If {data['observations']:,} more observations of one action in one state could be had, by how much would "
        f"the decision get better? At risk level {data['alpha']:g} the data would be of use as the table says: gain "
        "is what it adds to the mean return, because the policy is then chosen better. Data that cannot change the "
        "policy has no gain, however uncertain the matter is."
    ]
    if data["left_out"]:
        looked = data["sources"] - data["left_out"]
        text.append(
            f"Looked at were {looked:,} of {data['sources']:,} pairs of state and action: the likeliest to matter by "
            f"a rough screen, at level {data['alpha']:g}, with fewer samples. The others were left out."
        )
    rows = [
        {
            "state": _name(row["state"]),
            "action": _name(row["action"]),
            "gain": _with_error(row["gain"], row["gain_error"]),
            "chance that the policy changes": f"{row['switch']:.0%}",
            "seen so far": f"{row['evidence']:,.6g}",
        }
        for row in data["ranking"]
        if row["gain"] > 0.0 or row["switch"] >= 0.005
    ][:SHOWN_ROWS]
    if not rows:
        return paragraphs(*text, "No such data can change what to do.")
    return paragraphs(*text) + Table.of("What more observations are worth", rows).html()


def _log(record: Mapping[str, Any]) -> str:
    rows = [[escape(title), escape(text)] for title, text in record["summary"]]
    return Table(f"What {record['log']} holds, and what was made of it", ["fact", "in the log"], rows, "facts").html()


def _words(record: Mapping[str, Any]) -> str:
    facts = {"discount": record["discount"], "tail": 1.0 - record["tail"]}
    items = "".join(f"<dt>{escape(word)}</dt><dd>{escape(text.format(**facts))}</dd>" for word, text in WORDS.items())
    return f"<dl>{items}</dl>"


def _run(record: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    rows = [
        [escape(name), escape(", ".join(map(str, value)) if isinstance(value, list) else str(value))]
        for name, value in settings.items()
        if value is not None
    ]
    rows += [["draws", f"{record['draws']:,}"], ["prudent", escape(record["prudent"])]]
    errors = [row["certificate"]["error_bound"] for row in record["levels"]]
    text = f"Values are exact to {max(errors):.1g}, by a bound that the solver proves. Returns are exact for each draw."
    return paragraphs(text) + Table("Options of the command", ["option", "value"], rows, "facts").html()
