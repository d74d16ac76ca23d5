"""How often an analysis names the cause of lost time right: labelled traces, modelled and real."""
