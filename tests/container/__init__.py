"""Execute the steps of the Dockerfile without a container engine, in an empty Debian system."""
