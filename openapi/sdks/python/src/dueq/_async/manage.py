"""The methods for schedules, topics and groups; `client.py` has those for messages."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Optional, Union

from dueq._options import Duration, TickMessage, fields, milliseconds, named
from dueq._retry import suppress_gone

if TYPE_CHECKING:
    from dueq._async.client import AsyncApi
    from dueq.generated.models import (
        CallbackRequest,
        CatchUp,
        Group,
        PutGroupRequest,
        PutTopicRequest,
        Schedule,
        Topic,
        UpdateTopicRequest,
    )

__all__ = ["Manage"]


async def pages(page: Callable[[Optional[str]], Any]) -> AsyncIterator[Any]:
    """The items of all pages; `page` asks for the one that begins at a cursor."""
    cursor: Optional[str] = None
    while True:
        found = await page(cursor)
        for item in found.items:
            yield item
        cursor = found.next_cursor
        if cursor is None:
            return


class Manage:
    """The methods of a client for schedules, topics and groups."""

    api: "AsyncApi"

    async def put_schedule(
        self,
        name: str,
        message: TickMessage,
        *,
        topic: Optional[str] = None,
        callback: "Union[CallbackRequest, Mapping[str, Any], None]" = None,
        cron: Optional[str] = None,
        timezone: Optional[str] = None,
        every: Optional[Duration] = None,
        catch_up: "Union[CatchUp, str, None]" = None,
    ) -> "Schedule":
        """Publishes a message again and again: creates the schedule of this name, or replaces it.

        message: a dict of its `payload` and those options of `publish` that do not say when.
        topic: where the messages go; or callback: the URL that they are sent to, as `{"url": …}`.
        cron: when, as `"0 9 * * MON-FRI"`, in the time zone `timezone` (UTC unless given); or every: the time between two.
        catch_up: "one" (unless given), "none" or "all" of the ticks that were missed are made up for.
        """
        from dueq.generated.models import PutScheduleRequest, ScheduledMessageRequest

        given: dict[str, Any] = {"topic": topic, "callback": callback, "cron": cron, "timezone": timezone, "catch_up": catch_up}
        if every is not None:
            given["every_ms"] = milliseconds("every", every)
        scheduled = ScheduledMessageRequest(**fields(message, TickMessage))
        request = PutScheduleRequest(message=scheduled, **{part: value for part, value in given.items() if value is not None})
        return await self.api.schedules.put_schedule(named("name", name), request)

    async def get_schedule(self, name: str) -> "Optional[Schedule]":
        """The schedule: what it publishes, its next tick, how the last one went; None where there is none."""
        with suppress_gone():
            return await self.api.schedules.get_schedule(named("name", name))
        return None

    def list_schedules(self) -> "AsyncIterator[Schedule]":
        """Every schedule, by name."""
        return pages(lambda cursor: self.api.schedules.list_schedules(cursor=cursor))

    async def pause_schedule(self, name: str) -> "Schedule":
        """Stops its ticks until `resume_schedule`."""
        return await self.api.schedules.pause_schedule(named("name", name))

    async def resume_schedule(self, name: str) -> "Schedule":
        """Has a paused schedule tick again."""
        return await self.api.schedules.resume_schedule(named("name", name))

    async def trigger_schedule(self, name: str) -> "Schedule":
        """Publishes its message now, in addition to its ticks."""
        return await self.api.schedules.trigger_schedule(named("name", name))

    async def delete_schedule(self, name: str) -> bool:
        """Deletes it; False where there is none. What it has published stays."""
        with suppress_gone():
            await self.api.schedules.delete_schedule(named("name", name))
            return True
        return False

    async def put_topic(self, topic: str, settings: "Union[PutTopicRequest, Mapping[str, Any]]") -> "Topic":
        """Creates a topic, or replaces its settings as a whole: `{"max_attempts": 3}`, named as in the HTTP API."""
        from dueq.generated.models import PutTopicRequest

        return await self.api.topics.put_topic(named("topic", topic), PutTopicRequest.model_validate(settings))

    async def update_topic(self, topic: str, settings: "Union[UpdateTopicRequest, Mapping[str, Any]]") -> "Topic":
        """Changes the settings that are named, and leaves the others; None resets one to its default."""
        from dueq.generated.models import UpdateTopicRequest

        return await self.api.topics.update_topic(named("topic", topic), UpdateTopicRequest.model_validate(settings))

    async def get_topic(self, topic: str) -> "Optional[Topic]":
        """Its settings and counts; None where there is none."""
        with suppress_gone():
            return await self.api.topics.get_topic(named("topic", topic))
        return None

    async def pause_topic(self, topic: str) -> "Topic":
        """Has nothing leased from it, and nothing sent, until `resume_topic`. Publishing goes on."""
        return await self.api.topics.pause_topic(named("topic", topic))

    async def resume_topic(self, topic: str) -> "Topic":
        """Ends its pause."""
        return await self.api.topics.resume_topic(named("topic", topic))

    async def delete_topic(self, topic: str, *, force: bool = False) -> bool:
        """Deletes an empty topic, or with `force` one with its messages; False where there is none."""
        with suppress_gone():
            await self.api.topics.delete_topic(named("topic", topic), force)
            return True
        return False

    async def put_group(self, topic: str, group: str, limits: "Union[PutGroupRequest, Mapping[str, Any]]") -> "Group":
        """Gives one group limits of its own, in place of the topic's: `{"concurrency": 5}`."""
        from dueq.generated.models import PutGroupRequest

        limits = PutGroupRequest.model_validate(limits)
        return await self.api.topics.put_group(named("topic", topic), named("group", group), limits)

    async def get_group(self, topic: str, group: str) -> "Group":
        """Its limits, and how many of its messages wait; zeros where there are none."""
        return await self.api.topics.get_group(named("topic", topic), named("group", group))

    def list_groups(self, topic: str) -> "AsyncIterator[Group]":
        """Every group of the topic that has messages or limits of its own."""
        return pages(lambda cursor: self.api.topics.list_groups(named("topic", topic), cursor=cursor))

    async def pause_group(self, topic: str, group: str) -> "Group":
        """Has nothing of the group leased, until `resume_group`."""
        return await self.api.topics.pause_group(named("topic", topic), named("group", group))

    async def resume_group(self, topic: str, group: str) -> "Group":
        """Ends its pause."""
        return await self.api.topics.resume_group(named("topic", topic), named("group", group))

    async def delete_group(self, topic: str, group: str) -> None:
        """Gives the group the topic's limits again. Its messages stay."""
        await self.api.topics.delete_group(named("topic", topic), named("group", group))
