"""What the package needs of the machine: MXNet, arrays, files, threads, signals, processes."""
