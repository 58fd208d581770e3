"""
# Item features and cold start

A shop has twenty items, and gets five new ones. A bandit with coefficients of its own for every item must try each of
them from nothing. A bandit that ranks items by their *features* knows something about an item that nobody has ever
seen.
"""

# %%
# ## Items, customers and what they pay
#
# An item has four features (price, sport, warmth, colour, say), all between 0 and 1. A customer is one number between
# -1 and 1. What an item earns depends on its features, on their products with the customer, and on something of its
# own that no feature tells.
#
# One rule of [`SharedLinearBandit`][prudent.SharedLinearBandit] matters here: a feature of the customer alone is the
# same for all items and cannot change their order. It has to enter as a *product* with features of items. `rows` does
# that.
import matplotlib.pyplot as plt
import numpy as np

import prudent as pr

NAMES = [f"item {i}" for i in range(20)] + [f"new {i}" for i in range(5)]
JOIN, STEPS, NOISE = 600, 1200, 0.5


class Shop:
    """A shop whose truth is known."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.features = self.rng.random((len(NAMES), 4))
        self.theta = self.rng.normal(0, 0.6, 8)
        self.own = self.rng.normal(0, 0.15, len(NAMES))

    def rows(self, customer):
        """Return the features [25, 8] of all items for a customer."""
        return np.hstack([self.features, self.features * customer])

    def means(self, customer):
        """Return what the items earn on average."""
        return self.rows(customer) @ self.theta + self.own


# %%
# ## Three bandits
#
# All of them see the first 20 items, and all 25 from customer 600 on.
#
# - *one by one*: a [`LinearBandit`][prudent.LinearBandit] with a line in the customer's number for each item. That is
#   the truth, so it is right in the long run; new items are added with `add_arm`.
# - *by features*: one theta for all items. It has nothing to add: new items are just new rows.
# - *by features, with offsets*: the same, and `offsets=True` learns what is special about each item. By default items
#   are taken to differ as much as single rewards do; here it is less, and `offset_precision=10` says so: the offsets
#   have a tenth of the variance of the noise.


def play(kind, seed):
    """Return the regret of each decision, and the bandit as it is in the end."""
    shop = Shop(seed)
    if kind == "one by one":
        bandit = pr.LinearBandit(NAMES[:20], dim=1, rng=seed)
    else:
        bandit = pr.SharedLinearBandit(
            dim=8,
            offsets=kind.endswith("offsets"),
            offset_precision=10,
            rng=seed,
        )
    regret = np.empty(STEPS)
    for t in range(STEPS):
        customer, noise = shop.rng.uniform(-1, 1), shop.rng.normal(0, NOISE)
        size = 20 if t < JOIN else 25
        if kind == "one by one":
            if t == JOIN:
                for name in NAMES[20:]:
                    bandit.add_arm(name)
            arm = bandit.select([customer]).arm
        else:
            rows = shop.rows(customer)
            arm = bandit.select(
                rows[:size], arms=NAMES[:size], propensity=False
            ).arm
        means, item = shop.means(customer)[:size], NAMES.index(arm)
        if kind == "one by one":
            bandit.update([customer], arm, means[item] + noise)
        else:
            bandit.update(rows[item], arm, means[item] + noise)
        regret[t] = means.max() - means[item]
    return regret, bandit


COLOURS = {
    "one by one": "#000000",
    "by features": "#56b4e9",
    "by features, with offsets": "#009e73",
}
played = {kind: [play(kind, seed) for seed in range(10)] for kind in COLOURS}

# %%
# ## What they lose
#
# Mean cumulative regret over ten shops. The second climb of the black line is the cold start: five more items to be
# tried by hand. The blue line climbs least when they join, but it never learns what the features do not tell, and
# goes on losing a little for ever. Offsets cure that.
#
# Shops differ a lot, and all bandits meet the same ten. So the table compares them shop by shop: its intervals are
# those of the difference.
figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for kind, colour in COLOURS.items():
    total = np.cumsum(
        [regret for regret, _ in played[kind]], axis=1
    )  # [shop, customer]
    less = (
        np.cumsum([regret for regret, _ in played["one by one"]], axis=1)[:, -1]
        - total[:, -1]
    )
    axes.plot(total.mean(axis=0), color=colour, label=kind)
    half = (
        2.26 * less.std(ddof=1) / np.sqrt(len(less))
    )  # 95%, Student's t with 9 degrees of freedom
    before, after = (
        total[:, JOIN - 1].mean(),
        (total[:, -1] - total[:, JOIN - 1]).mean(),
    )
    print(
        f"{kind:27} lost {before:5.1f} before, {after:5.1f} after; "
        f"less than one by one: {less.mean():5.1f} +- {half:.1f}"
    )
axes.axvline(JOIN, color="#6b6b6e", linestyle=":")
axes.annotate(
    " five items join",
    (JOIN, 0.03),
    xycoords=("data", "axes fraction"),
    color="#6b6b6e",
)
axes.set(
    xlabel="customer",
    ylabel="cumulative regret",
    xlim=(0, STEPS),
    ylim=(0, None),
)
axes.legend(loc="upper left")
plt.show()

# %%
# ## What is known of an item that nobody has tried
#
# A bandit that has seen 20 items for 600 customers, and then meets the new ones: `predict` gives mean and standard
# deviation of what they earn. With offsets the bandit knows that it does not know what is special about a new item,
# and its intervals are wider; that is what makes it try them.
shop = Shop(seed=20)
plain = pr.SharedLinearBandit(dim=8, rng=1)
careful = pr.SharedLinearBandit(dim=8, offsets=True, offset_precision=10, rng=1)
for _ in range(JOIN):
    customer = shop.rng.uniform(-1, 1)
    rows = shop.rows(customer)
    item = NAMES.index(
        careful.select(rows[:20], arms=NAMES[:20], propensity=False).arm
    )
    reward = shop.means(customer)[item] + shop.rng.normal(0, NOISE)
    careful.update(rows[item], NAMES[item], reward)
    plain.update(rows[item], None, reward)

today = 0.5  # a customer
figure, axes = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
places = np.arange(5)
for bandit, shift, kind in (
    (plain, -0.12, "by features"),
    (careful, 0.12, "by features, with offsets"),
):
    mean, sd = bandit.predict(shop.rows(today)[20:], arms=NAMES[20:])
    axes.errorbar(
        places + shift,
        mean,
        1.96 * sd,
        fmt="o",
        color=COLOURS[kind],
        markersize=4,
        label=kind,
    )
    print(f"{kind:27} sd of the new items {sd.min():.2f} to {sd.max():.2f}")
axes.plot(
    places,
    shop.means(today)[20:],
    "_",
    color="#000000",
    markersize=22,
    label="truth",
)
axes.set_xticks(places, NAMES[20:])
axes.set(ylabel="what it earns, 95%")
axes.grid(axis="x", visible=False)
figure.legend(loc="outside lower center", ncols=3)
plt.show()

# %%
# ## A page with three places
#
# `top=3` fills a page, best first. `propensity` is the exact chance of the first place; `inclusion` samples the
# chance of being on the page at all, with a standard error. Each place has a reward of its own.
decision = careful.select(shop.rows(today), arms=NAMES, top=3)
print(
    "page:",
    ", ".join(decision.slate),
    f"| chance of the first place {decision.propensity:.3f}",
)
inclusion = decision.inclusion(draws=2000, rng=1)
likely = np.argsort(inclusion.chance)[::-1][:5]
print(
    "on the page with chance:",
    ", ".join(f"{NAMES[i]} {inclusion.chance[i]:.2f}" for i in likely),
)
careful.update(decision.chosen, decision.slate, [0.4, 0.1, -0.2])
print(careful)

# %%
# ## What to try next
#
# - Make the features useless: `self.own` with a standard deviation of 1. Which bandit is best then?
# - `LinearBandit.add_arm("new 0", like=["item 3", "item 7"])`: without features, but with a hint.
# - `careful.explain(...)` says which features put an item first; `careful.plot()` draws the coefficients.
# - Items known by a table: rows may be a DataFrame, its index the names of items and its columns those of features.
# - [Bandits in production](../howto/bandits-in-production.md); [a news bandit](bandit_news.md).
