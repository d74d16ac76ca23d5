"""An emulated cluster: many hosts on one Linux machine, with real processes and real HDFS on them.

Network namespaces with rates are the hosts, control groups their CPUs, throttled loop devices
their disks, a user-space relay the line between two sites. Needs root. Everything is gone on exit.
"""

from testbed.bed import Testbed
from testbed.host import Host
from testbed.scenario import Scenario

__all__ = ["Host", "Scenario", "Testbed"]
