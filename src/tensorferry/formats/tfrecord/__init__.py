"""tfrecord."""
