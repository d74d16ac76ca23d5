"""Pages, plots and tables for people: what every measurement's report is made of."""
