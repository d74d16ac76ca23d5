"""Storage in object stores, through obstore: S3 and what speaks like it, Google's, Azure's.

``obstore`` is imported when the first store is opened, never before.
"""
