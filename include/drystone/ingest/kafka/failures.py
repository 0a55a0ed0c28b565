"""What errors of a Kafka client mean: whether rights are wrong, or another attempt may help."""

from __future__ import annotations

from confluent_kafka import KafkaError as Told
from confluent_kafka import KafkaException

from drystone.errors import DrystoneError, KafkaAccessError, KafkaError

_ACCESS = frozenset(
    {
        Told.TOPIC_AUTHORIZATION_FAILED,
        Told.GROUP_AUTHORIZATION_FAILED,
        Told.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        Told.CLUSTER_AUTHORIZATION_FAILED,
        Told.SASL_AUTHENTICATION_FAILED,
        Told._AUTHENTICATION,  # noqa: SLF001 -- the client's names for its own codes begin so
        Told._SSL,  # noqa: SLF001
    }
)
_GONE = frozenset(
    {
        Told.UNKNOWN_TOPIC_OR_PART,
        Told.UNKNOWN_TOPIC_ID,
        Told._UNKNOWN_TOPIC,  # noqa: SLF001
        Told._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)
_SILENT = frozenset({None, Told._TRANSPORT, Told._TIMED_OUT, Told._ALL_BROKERS_DOWN})  # noqa: SLF001
_DOWN = Told._ALL_BROKERS_DOWN  # noqa: SLF001
_RIGHTS = "Look at ingest.client (secrets come from the environment) and at the rights of its user."
_REACH = "Look at ingest.bootstrap_servers, and whether the brokers run and can be reached from here."


class Heard:
    """What a client tells beside its answers: why it cannot reach a broker, which an answer calls a time-out."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.last: Told | None = None

    def __call__(self, error: Told) -> None:
        """Keep what is told, as the client's `error_cb`; that all brokers are down says less than why one is."""
        if error.code() != _DOWN or self.last is None:
            self.last = error

    @property
    def final(self) -> Told | None:
        """What was told, if waiting does not help: rights are wrong, or the topic is gone."""
        return self.last if self.last is not None and self.last.code() in _ACCESS | _GONE else None


def explained(error: Exception, where: str, what: str, heard: Heard) -> DrystoneError:
    """Return what to raise for an error of a client that was asked to do `what`."""
    told = error.args[0] if isinstance(error, KafkaException) and error.args else None
    code = told.code() if isinstance(told, Told) else None
    why = _line(told.str() if isinstance(told, Told) else str(error) or "no answer in time")
    if code in _GONE:
        return KafkaError(
            f"{where} cannot {what}: {why}; it was deleted meanwhile.", "The next run sees what is there."
        )
    if code in _ACCESS:
        return KafkaAccessError(f"{where} refuses to {what}: {why}.", _RIGHTS)
    cause = heard.last
    if cause is not None and cause.code() in _ACCESS:
        return KafkaAccessError(f"{where} does not let us in: {_line(cause.str())}.", _RIGHTS)
    because = "" if cause is None else f" ({_line(cause.str())})"
    if code in _SILENT:
        return KafkaError(f"{where} does not answer when asked to {what}: {why}{because}.", _REACH)
    return KafkaError(f"{where} fails to {what}: {why}{because}.")


def _line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
