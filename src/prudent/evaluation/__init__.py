"""What a logged policy says about another one: off-policy evaluation, replay, tuning."""
