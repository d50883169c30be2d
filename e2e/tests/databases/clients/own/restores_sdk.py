"""Our Python SDK with databases that are backed up, verified, cloned, restarted and reset."""

from pandastack import PandaStack

# Time limit in seconds of each step that takes minutes without KVM.
PATIENCE = 300.0


def rows(database):
    return database.query("SELECT count(*), max(n) FROM item").rows


with PandaStack() as client:
    source = client.databases.create(label="by Python", always_on=True)
    source.execute("CREATE TABLE item (n int); INSERT INTO item SELECT generate_series(1, 7)")

    taken = source.backup(timeout=PATIENCE)
    assert source.backups()["items"][0]["name"] == taken["name"], taken
    drill = source.verify_backup(timeout=PATIENCE)
    assert (drill["status"], drill["backup"]) == ("passed", taken["name"]), drill
    assert drill["relations_checked"] > 50, drill

    clone = source.clone(label="Python's clone", timeout=PATIENCE)
    assert (clone.status, clone.cloned_from) == ("running", source.id), clone
    assert rows(clone) == [[7, 7]], rows(clone)
    clone.delete()

    before = source.connection_url
    source.restart(timeout=PATIENCE)
    assert (source.status, source.connection_url) == ("running", before), source
    assert rows(source) == [[7, 7]], rows(source)

    branch = source.branch(label="Python's branch")
    branch.execute("DELETE FROM item WHERE n > 2")
    source.execute("INSERT INTO item VALUES (8)")
    assert rows(branch) == [[2, 2]], rows(branch)
    before = branch.connection_url
    branch.reset(timeout=PATIENCE)
    assert (branch.status, branch.connection_url) == ("running", before), branch
    assert rows(branch) == [[8, 8]], rows(branch)

    for database in (branch, source):
        database.delete()
print("checked: restored databases of our Python SDK")
