"""The main job, under attack: a PySpark pipeline whose driver, workers and broker are killed."""
