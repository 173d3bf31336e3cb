"""Lists pods page by page and then watches them, with Kubernetes' own client; prints a line for each page,
event and failure.

Arguments: the API server's URL, a namespace, a label selector.
"""

import sys

from kubernetes import client, watch

server, namespace, selector = sys.argv[1:]
configuration = client.Configuration(host=server)
api = client.CoreV1Api(client.ApiClient(configuration))

token = None
while True:
    page = api.list_namespaced_pod(namespace, label_selector=selector, limit=2, _continue=token)
    names = ",".join(pod.metadata.name for pod in page.items)
    print("page", names, page.metadata.resource_version, flush=True)
    token = page.metadata._continue
    if not token:
        break

stream = watch.Watch()
try:
    events = stream.stream(
        api.list_namespaced_pod,
        namespace,
        label_selector=selector,
        resource_version=page.metadata.resource_version,
        allow_watch_bookmarks=True,
    )
    for event in events:
        subject = event["object"]
        if event["type"] == "BOOKMARK":
            print("BOOKMARK", event["raw_object"]["metadata"]["resourceVersion"], flush=True)
        else:
            print(event["type"], subject.metadata.name, subject.status.pod_ip, flush=True)
except client.ApiException as error:
    print("failed", error.status, flush=True)
