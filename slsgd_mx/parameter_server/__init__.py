"""Training beyond one process, on MXNet's own parameter server (ps-lite, ``dist_async``).

    protocol      arrays that workers and servers exchange: keys, headers, status, reports
    commands      commands of the coordinator to the servers, in JSON
    secret        what proves that a message comes from a process of this run
    shard_server  one server: its shard of the model, and what pushes and commands do to it
    node          joining and leaving the parameter server, waiting with a limit, lost nodes
    buffers       arrays that a worker sends and receives
    client        the parameter server as a worker sees it: a ``slsgd_mx.core.server.Server``
    roles         what the scheduler, a server and a worker do, however they are started
    losses        how often roles were lost, and whether and when to restart them
    launcher      start all roles on one machine, watch and restart them

Worker 0 is the coordinator: it owns the run folder and commits every epoch.  The other workers are
followers.
"""

PATIENCE = 30.0  # seconds without a sign of life after which a process counts as lost
SEE_LOG = "its log says why"  # ends the message about a server that failed
RESTARTS = 3  # in a row, without completing a further epoch
