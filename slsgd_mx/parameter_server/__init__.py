"""The same training beyond one process, on MXNet's own parameter server (ps-lite, ``dist_async``).

    protocol     what goes over the wire: keys, headers, a server's status, commands in JSON
    aggregator   one server's shard of the model, and what pushes and commands do to it; no MXNet
    node         joining and leaving the parameter server; who is gone; waiting, but not for ever
    wire         what a worker sends and receives, waited for and counted
    client       the parameter server seen by a worker: a ``slsgd_mx.server.Server``
    shares       which slots of S_t each worker trains
    roles        what a scheduler, a server, a worker does, started by anything
    role         the same, started by the launcher
    launcher     all roles on one machine: started, watched, restarted

Worker 0 coordinates: it holds the run folder, and commits every epoch.
"""
