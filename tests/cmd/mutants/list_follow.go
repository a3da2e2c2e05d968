package main

const inFollow = "repo/postgres/internal/follow"

// Followers: what is new wakes them, and they miss nothing.
var followMutants = []mutant{
	{"follow/a hint during a read is forgotten", in(inFollow, "Hub.observe", always("r.known")), test(inFollow, "TestHintDuringReadOfOthers")},
	{"follow/told without the lock", in(inFollow, "Hub.Tell", unlocked("h.mu")), raced(test(inFollow, "TestHints"))},
	{"follow/an outage ends its followers", in(inFollow, "Hub.next", never("h.config.Passes")), test(inFollow, "TestOutage")},
	{"follow/an append hides a deletion", in(inFollow, "Notifier.Add", always("next", "Look")), test(inFollow, "TestNotifier")},
	{"follow/a hint that is lost meanwhile", in(inFollow, "class.wake", dropAssign("c.missed", "c.looking")), test(inFollow, "TestWaiters.*")},
	{"follow/other processes are not told", in(inRepo, "live.changed", dropCall("l.notifier.Add")), inPostgres("TestFollowOtherProcess")},
	{"follow/followers that catch up have all readers", in(inFollow, "Hub.take", always("h.catching")), test(inFollow, "TestCatchUp")},
	{"follow/one that cannot be read fails others", in(inFollow, "Hub.settle", never("alone", "requests")), test(inFollow, "TestBad")},
	{"follow/a page leaves out missing messages", in(inRepo, "checkLinked", never("before", "known")), inPostgres("TestMissingMessages")},
	{"follow/missing messages are left out", in(inRepo, "endAtGap", never("message.Sequence")), inPostgres("TestMissingMessages")},
	{"follow/the poll compares nothing", query("SessionListMoved", never("c.next_sequence")), inPostgres("TestFollowUnannounced")},
	{"follow/a stream's expiry that is not polled", query("StreamListMoved", always("streams.expires_at")), inPostgres("TestStreamUnannounced")},
	{"follow/goes on after its Next was given up", in("repo/adapter", "Follower.Next", dropDefer("AfterFunc")), test("repo/adapter", "TestFollowerEnds")},
}
