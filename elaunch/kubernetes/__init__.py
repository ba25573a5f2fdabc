"""ElasticJob: the custom resource and its operator. ``desired.py`` decides, ``reconciling.py`` carries out."""
