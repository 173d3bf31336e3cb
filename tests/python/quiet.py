"""Imports TensorFlow without its start-up chatter, and without a GPU."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf  # noqa: E402

service = tf.data.experimental.service
DYNAMIC = service.ShardingPolicy.DYNAMIC
OFF = service.ShardingPolicy.OFF
