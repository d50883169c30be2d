"""Our Python SDK with databases of its own: made, asked, branched, changed and deleted."""

from pandastack import PandaStack

COUNT = "SELECT count(*) FROM item"

with PandaStack() as client:
    source = client.databases.create(label="by Python")
    assert (source.status, source.label) == ("running", "by Python"), source
    assert not source.always_on
    source.execute("CREATE TABLE item (n int); INSERT INTO item SELECT generate_series(1, 4)")
    assert source.query(COUNT).value == 4

    branch = source.branch(label="Python's branch")
    assert (branch.status, branch.label) == ("running", "Python's branch"), branch
    assert branch.branched_from == source.id and branch["password"] != source["password"], branch
    assert branch.execute("DELETE FROM item WHERE n > $1", [1]).rows_affected == 3
    assert [database.query(COUNT).value for database in (source, branch)] == [4, 1]

    source.set_always_on(True)
    assert source.always_on and client.databases.get(source.id).always_on, source

    for database in (branch, source):
        database.delete()
    left = {database.id for database in client.databases.list()}
    assert not left & {branch.id, source.id}, left
print("checked: databases of our Python SDK")
