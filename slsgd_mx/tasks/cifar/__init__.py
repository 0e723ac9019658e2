"""The paper's first workload: a convolutional network on CIFAR-10."""
