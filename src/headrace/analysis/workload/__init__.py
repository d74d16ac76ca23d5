"""Models of jobs' workloads: fitted to traces, written as TOML, made into traces again."""
