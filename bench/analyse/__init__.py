"""Import and analysis of other tools' traces, against those tools' own analysers."""
