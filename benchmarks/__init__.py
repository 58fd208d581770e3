"""What the issues ask us to reach, measured: ratios side by side in one run."""
