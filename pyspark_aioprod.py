"""Where PySpark looks for data sources by itself: it imports each module whose name begins with `pyspark_`.

An error here would hide everybody's data sources, not only ours.
"""

try:
    from aioprod.spark.datasource import AioprodSource as DefaultSource
except ImportError:  # PySpark before 4.0, or aioprod without what it needs
    pass
else:
    __all__ = ["DefaultSource"]
