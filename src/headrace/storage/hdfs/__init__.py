"""Storage in HDFS: hdfs-native for names and bytes, the NameNode's HTTP port for places of blocks.

``hdfs_native`` is imported when the first store is opened, never before.
"""

from headrace.storage.hdfs.config import HdfsConfig
from headrace.storage.hdfs.storage import HdfsStorage

__all__ = ["HdfsConfig", "HdfsStorage"]
