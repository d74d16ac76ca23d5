"""Summarises a profile with HolisticTraceAnalysis; run by the Python that has it.

``python hta_summary.py PROFILE``: the time of the device by what it did, and by kernel. The last
line is the number of events.
"""

from __future__ import annotations

import sys

from hta.trace_analysis import TraceAnalysis  # type: ignore[import-not-found]

if __name__ == "__main__":
    analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
    print(analysis.get_temporal_breakdown(visualize=False))
    for kernels in analysis.get_gpu_kernel_breakdown(visualize=False):
        print(kernels)
    print(len(analysis.t.get_trace(0)))
