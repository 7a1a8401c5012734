"""The selection of messages for a replay by hand, and the requests for such replays."""
