"""Arrow data of any library, read where it lies in memory: the C data interface, and typed views of its columns.

See CDataInterface.html, CStreamInterface.html and CDataInterface/PyCapsuleInterface.html of
https://arrow.apache.org/docs/format/.
"""

from __future__ import annotations
