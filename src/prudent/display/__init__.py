"""One look for all figures: style (colours, dashes, names of agents) and frame (panels, legends, SVG and PNG)."""
