"""Off-policy evaluation of episodes: what another policy would have earned in a process that goes on over steps.

- ``log``: the rows of a log, by episode and step
- ``policies``: the target and the policy that acted, as probabilities of actions in the rows
- ``weights``: importance weights and the estimators that are sums of ratios of means
- ``tabular``, ``regression``: values of the target's actions, from a table of states or by any regressor
- ``marginal``: importance weights of states
- ``posterior``: the return in the Bayesian model of the log
- ``intervals``: the bootstrap over episodes, and bounds that hold at every number of episodes
- ``verdict``: whether the log can answer, and which estimate to take
- ``result``, ``evaluate``: the result, and the function that does all of it
"""
