"""The setting that caps a share's CPU limit, where a LimitRange would refuse a larger one (B66)."""

from collections.abc import Iterator

import pytest

from milligpu.processes import Webhook
from tests.cluster import policies, webhooks
from tests.cluster.controlplane import ControlPlane
from tests.cluster.policies import judge, table, written
from vgpu.names import ENV_OURS

pytestmark = pytest.mark.apiserver

ROWS = table("LimitRange", 4)


@pytest.fixture(scope="module")
def webhook(apiserver: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    """One webhook for all rows, for they all have the same setting."""
    (setting,) = {row[0] for row in ROWS}
    settings = {name.removeprefix(ENV_OURS).lower(): it for name, it in written(setting).items()}
    folder = tmp_path_factory.mktemp("webhook")
    with webhooks.before(apiserver, folder, **settings) as started:
        yield started


@pytest.mark.parametrize(("policy", "pod", "outcome"), [row[1:] for row in ROWS])
def test_a_capped_limit_passes(
    apiserver: ControlPlane,
    webhook: Webhook,
    namespace: str,
    policy: str,
    pod: str,
    outcome: str,
) -> None:
    policies.limit_range(apiserver.api, namespace, written(policy))
    made = policies.pod(pod)
    judge(outcome, lambda: apiserver.api.create(made, namespace))
