"""The controller: jobs and agents report, quotas go back, every decision is journaled."""
