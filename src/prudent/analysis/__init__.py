"""Questions about a policy: returns over the posterior, which alpha, what to measure next, and why this action."""
