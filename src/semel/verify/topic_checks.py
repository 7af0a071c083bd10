"""What was said of topics: one that was made is there until someone tries to delete it."""

from collections.abc import Iterator

from semel.verify.history import Deleted, DeletionTried, History, TopicMade, TopicSeen


def check_topics(history: History) -> Iterator[str]:
    made: dict[str, list[TopicMade | TopicSeen]] = {}
    for topic_made in history.all(TopicMade):
        made.setdefault(topic_made.topic, []).append(topic_made)
    for seen in history.all(TopicSeen):
        made.setdefault(seen.topic, []).append(seen)
    deletion_tried_s = {tried.topic: tried.began_s for tried in history.all(DeletionTried)}
    deleted_s = {deleted.topic: deleted.span.ended_s for deleted in history.all(Deleted)}
    for seen in history.all(TopicSeen):
        least = max(
            (
                each.partition_count
                for each in made.get(seen.topic, ())
                if each.span.ended_s < seen.span.began_s
            ),
            default=0,
        )
        if deletion_tried_s.get(seen.topic, float("inf")) > seen.span.ended_s:
            if seen.partition_count < least:
                yield (
                    f"topic {seen.topic} was made with {least} partitions and has "
                    f"{seen.partition_count} at {seen.span.ended_s:.3f} s"
                )
        elif seen.partition_count and deleted_s.get(seen.topic, float("inf")) < seen.span.began_s:
            yield f"topic {seen.topic} was deleted and is there at {seen.span.ended_s:.3f} s"
