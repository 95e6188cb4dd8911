"""Which broker of which cluster a client expects, by ApiVersions (KIP-1242)."""

from __future__ import annotations

from aioprod.errors import ErrorCode
from aioprod.messages import ApiVersionsRequest, MetadataRequest
from tests.support.broker_scenarios.scenario import scenario_of_version_2
from tests.support.lab import Lab


async def greeted(lab: Lab, cluster_id: str | None, node_id: int) -> ErrorCode | int:
    """The code for a client that expects this broker of this cluster."""
    request = ApiVersionsRequest(
        client_software_name="lab", client_software_version="1", cluster_id=cluster_id, node_id=node_id
    )
    return ErrorCode.of((await lab.request(request, 5)).error_code)


@scenario_of_version_2
async def clients_that_expect_a_broker(lab: Lab) -> None:
    """Another broker, or one of another cluster, says so; both ids are given or neither."""
    described = await lab.request(MetadataRequest(topics=()), 12)
    cluster_id, node_id = described.cluster_id, described.brokers[0].node_id
    assert cluster_id is not None
    assert await greeted(lab, cluster_id, node_id) == ErrorCode.NONE
    assert await greeted(lab, None, -1) == ErrorCode.NONE
    assert await greeted(lab, cluster_id, node_id + 1) == ErrorCode.REBOOTSTRAP_REQUIRED
    assert await greeted(lab, "another", node_id) == ErrorCode.REBOOTSTRAP_REQUIRED
    assert await greeted(lab, cluster_id, -1) == ErrorCode.INVALID_REQUEST
    assert await greeted(lab, None, node_id) == ErrorCode.INVALID_REQUEST
    assert await greeted(lab, cluster_id, node_id) == ErrorCode.NONE
