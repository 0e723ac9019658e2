"""The paper's CNN on CIFAR-10, or on synthetic images, as a task."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

from slsgd_mx.config import RunConfig
from slsgd_mx.data.images import CLASSES, SHAPE
from slsgd_mx.data.load import load_images
from slsgd_mx.system.mxnet import mx
from slsgd_mx.tasks.cifar.network import cnn
from slsgd_mx.tasks.images.task import ImagesTask


class CifarTask(ImagesTask):
    """Images partitioned among n devices, the paper's CNN, accuracy and cross entropy."""

    def __init__(self, config: RunConfig, data_dir: Optional[Path] = None) -> None:
        sizes = config.sizes
        data = load_images(sizes.data, data_dir, sizes.train_images, sizes.test_images)
        net = cnn(CLASSES, sizes.width)
        net.initialize(mx.init.Xavier())
        net(mx.nd.zeros((1, *SHAPE)))  # determines the shapes of the parameters
        super().__init__(config, data, net, CLASSES)
