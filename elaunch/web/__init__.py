"""What a browser and a Prometheus are told of jobs, over HTTP. Imported only where somebody asks for it."""
