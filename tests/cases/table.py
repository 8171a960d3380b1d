"""What went wrong for people who share GPUs or run webhooks, and what holds it here.

A case is held at its levels: U the webhook's and the certificates' logic, P the plugin before a
kubelet's stand-in or a stand-in for the driver, C the manifests, E a real API server, D a page.
What holds it is a test, as `file::function` below tests/, or a page, as `file#heading` below the
root. All of them are held.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """One case, and what holds it at which level."""

    id: str
    wrong: str
    """What goes wrong."""
    levels: dict[str, list[str]] = field(default_factory=dict)
    otherwise: str = ""
    """Where we do something else than the case demands, and why."""


CASES = [
    Case(
        "B01",
        "After a reboot pods are admitted before the plugin is there, and fail for good.",
        {
            "P": [
                "integration/test_plugin.py::test_the_first_list_is_full_and_healthy",
                "integration/test_plugin.py::test_kubelet_restarts",
                "integration/test_plugin.py::test_pods_admitted_while_the_kubelet_restarts",
            ],
            "E": [
                "cluster/test_node_life.py::test_the_kubelet_restarts_again_and_again",
                "cluster/test_node_life.py::test_kubelet_and_plugin_end_together",
            ],
        },
    ),
    Case(
        "B02",
        "A fraction in a workload's template is refused before there is a pod to change.",
        {
            "U": [
                "matrix/test_matrix.py::test_created",
                "matrix/test_matrix.py::test_brought_by_an_update",
                "unit/webhook/test_custom_resources.py::test_every_template_is_translated",
            ],
            "E": [
                "cluster/test_webhook_matrix.py::test_a_row",
                "cluster/test_webhook_custom.py::test_every_template_is_translated",
                "cluster/test_node_kinds.py::test_pods_of_every_kind_run_with_their_share",
            ],
        },
    ),
    Case(
        "B03",
        "The ask is taken out of limits and left in requests, or the two differ.",
        {
            "U": [
                "matrix/test_matrix.py::test_created",
                "unit/webhook/test_laws.py::test_what_is_made_is_what_the_api_server_accepts",
            ],
            "E": ["cluster/test_webhook_matrix.py::test_a_row"],
        },
    ),
    Case(
        "B04",
        "A patch adds to a list or map that is not there.",
        {
            "U": [
                "unit/webhook/test_cases_patches.py::"
                "test_what_an_addition_goes_into_need_not_be_there",
                "unit/webhook/test_cases_patches.py::test_an_annotations_share_needs_no_resources",
                "unit/webhook/test_cases_patches.py::test_containers_of_every_shape_in_one_pod",
                "unit/webhook/test_laws.py::"
                "test_the_patch_makes_the_desired_object_under_strict_rfc_6902",
                "fuzz/test_fuzz.py::test_every_answer_is_what_the_oracle_says",
            ],
        },
    ),
    Case(
        "B06",
        "A webhook that is away keeps the system's own pods, and so itself, from starting.",
        {
            "C": [
                "contract/test_deploy.py::test_only_what_a_request_brings_may_fail_it",
                "contract/test_deploy.py::test_every_entry_calls_us_in_the_same_way",
            ],
            "E": [
                "cluster/test_webhook_gone.py::test_only_asks_and_grants_wait_for_it",
                "cluster/test_deploy_conditions.py::test_system_namespaces_are_left_alone",
                "cluster/test_deploy_conditions.py::"
                "test_our_own_and_opted_out_namespaces_are_left_alone",
                "cluster/test_node_webhook.py::test_killed_while_pods_are_created_it_harms_no_other",
            ],
        },
    ),
    Case(
        "B07",
        "An upgrade makes a new certificate, and the running webhook serves the old one.",
        {
            "C": ["contract/test_deploy.py::test_no_key_and_no_certificate_is_in_the_file"],
            "E": [
                "cluster/test_deploy_apply.py::test_applied_twice_it_changes_nothing",
                "cluster/test_deploy_certs.py::"
                "test_three_at_once_agree_and_a_second_run_changes_nothing",
                "cluster/test_node_renewal.py::test_renewals_under_load_fail_no_admission",
            ],
        },
    ),
    Case(
        "B09",
        "The slots of one request lie on two cards.",
        {
            "P": [
                "unit/plugin/test_allocation.py::test_laws",
                "unit/plugin/test_allocation.py::test_the_fullest_card_that_fits",
                "unit/plugin/test_allocation.py::test_required_slots_decide_the_card",
                "unit/plugin/test_allocation.py::test_spread_takes_the_emptiest_card",
                "unit/plugin/test_allocation.py::test_whole_cards_are_chosen_in_order",
                "unit/plugin/test_servicer.py::test_what_must_be_in_it_is_in_it",
                "integration/test_plugin.py::test_cards_are_packed",
                "integration/test_plugin_cards.py::test_shares_are_spread",
                "integration/test_plugin_cards.py::test_whole_cards",
            ],
        },
    ),
    Case(
        "B11",
        "What is measured of a shared card is told of one of its pods, or of none.",
        {
            "U": [
                "unit/plugin/test_series.py::test_each_container_has_a_series_for_its_card",
                "unit/plugin/test_series.py::"
                "test_a_scrape_does_not_depend_on_the_order_of_the_list",
            ],
            "P": [
                "integration/test_plugin_cards.py::"
                "test_series_of_containers_come_and_go_with_their_pods",
            ],
            "D": ["docs/reference/names.md#Device ids"],
        },
    ),
    Case(
        "B12",
        "A card that was ill once stays ill until somebody restarts the plugin.",
        {
            "P": [
                "integration/test_plugin.py::test_one_card_is_lost_and_comes_back",
                "unit/plugin/test_node.py::test_a_lost_driver_takes_all_cards_and_brings_them_back",
                "integration/test_nvml.py::"
                "test_a_fault_is_of_one_card_and_passes_without_a_restart",
                "integration/test_nvml.py::test_an_xid_takes_its_cards_slots_along_and_no_other",
                "integration/test_nvml.py::test_a_card_that_needs_a_reset_is_back_after_it",
                "unit/plugin/test_health.py::"
                "test_an_event_is_over_after_a_quiet_time_of_good_looks",
                "unit/plugin/test_health.py::"
                "test_each_time_it_comes_back_the_quiet_time_doubles_up_to_a_limit",
            ],
        },
    ),
    Case(
        "B14",
        "What is left after removal keeps pods from being created.",
        {
            "C": ["contract/test_deploy.py::test_every_object_is_there_once_and_is_labelled"],
            "E": ["cluster/test_deploy_helm.py::test_a_release_lives_and_ends"],
            "D": [
                "docs/how-to/install.md#Upgrade and removal",
                "docs/how-to/helm.md#Upgrade, go back, take away",
            ],
        },
    ),
    Case(
        "B16",
        "Init containers and sidecars are forgotten.",
        {
            "U": [
                "matrix/test_matrix.py::test_created",
                "unit/webhook/test_limits.py::test_a_pod_of_several_containers_gets_each_ones_share",
                "golden/test_golden.py::test_golden",
            ],
            "E": [
                "cluster/test_webhook_matrix.py::test_a_row",
                "cluster/test_node_containers.py::"
                "test_an_init_container_a_sidecar_and_the_main_one",
            ],
        },
    ),
    Case(
        "B17",
        "A second call for the same pod adds everything again.",
        {
            "U": [
                "matrix/test_matrix.py::test_created",
                "unit/webhook/test_laws.py::test_the_answer_is_a_fixed_point",
                "unit/webhook/test_reinvocation.py::test_a_copy_of_a_live_pod_needs_nothing",
            ],
            "E": [
                "cluster/test_webhook_neighbours.py::"
                "test_our_second_call_changes_nothing_when_nothing_of_ours_was_changed",
                "cluster/test_webhook_again.py::"
                "test_what_comes_back_from_the_cluster_can_be_created_again",
            ],
        },
    ),
    Case(
        "B19",
        "On a node without a card, or with a late driver, the plugin crashes or sleeps for ever.",
        {
            "P": [
                "integration/test_plugin.py::test_no_card_then_one",
                "integration/test_plugin.py::test_a_broken_driver_is_not_ready_and_recovers",
                "integration/test_nvml.py::test_a_node_without_driver_idles_until_one_is_installed",
                "integration/test_nvml.py::test_a_broken_driver_shows_and_its_repair_too",
                "integration/test_nvml.py::test_a_driver_that_goes_away_and_comes_back",
                "integration/test_nvml.py::"
                "test_a_driver_that_is_replaced_is_used_by_its_own_library",
            ],
        },
    ),
    Case(
        "B21",
        "Pods that start at the same moment get one another's share.",
        {
            "P": [
                "integration/test_plugin.py::test_many_pods_at_once",
                "integration/test_plugin.py::test_two_containers_with_different_shares",
                "unit/plugin/test_edits.py::test_laws",
            ],
        },
    ),
    Case(
        "B22",
        "An added CPU limit lies under the user's request, and no pod can be made.",
        {
            "U": [
                "unit/webhook/test_cpu.py::test_a_share_gets_a_cpu_limit",
                "unit/webhook/test_cpu.py::test_the_limit_is_never_under_the_request",
                "unit/webhook/test_laws.py::test_what_is_made_is_what_the_api_server_accepts",
            ],
            "E": [
                "cluster/test_webhook_policies.py::"
                "test_a_limit_range_first_fills_in_and_then_judges",
            ],
        },
    ),
    Case(
        "B24",
        "A rolling restart drops admissions.",
        {
            "U": [
                "integration/test_gunicorn.py::"
                "test_requests_that_run_or_wait_are_answered_after_sigterm",
                "integration/test_gunicorn.py::test_readiness_ends_before_service_does",
            ],
            "C": [
                "contract/test_deploy.py::test_the_programs_are_these",
                "contract/test_deploy.py::test_the_webhook_has_time_to_end",
                "contract/test_deploy.py::test_the_webhook_is_never_away_on_purpose",
            ],
            "E": [
                "cluster/test_webhook_rollout.py::test_a_rolling_restart_fails_no_admission",
                "cluster/test_node_rollout.py::test_a_rollout_fails_no_admission",
            ],
        },
    ),
    Case(
        "B26",
        "The answer has a shape that the API server does not take.",
        {
            "U": [
                "unit/webhook/test_admission.py::test_a_changed_object_is_answered_with_a_patch",
                "unit/webhook/test_admission.py::test_an_unchanged_object_is_answered_without_one",
                "unit/webhook/test_admission.py::test_what_is_no_review_is_refused",
                "unit/webhook/test_admission.py::test_another_version_is_refused",
                "unit/webhook/test_admission.py::test_a_part_that_is_missing_is_named",
                "unit/webhook/test_app.py::test_what_is_no_review_is_refused",
                "unit/webhook/test_app.py::test_another_method_is_refused",
            ],
        },
        otherwise="v1beta1 is refused, not echoed: the configuration asks for v1 alone",
    ),
    Case(
        "B27",
        "Dry runs, and so `kubectl diff`, are refused or leave traces.",
        {
            "C": ["contract/test_deploy.py::test_every_entry_calls_us_in_the_same_way"],
            "U": [
                "unit/webhook/test_laws.py::test_a_dry_run_is_answered_as_any_other",
                "unit/webhook/test_app.py::test_reviews_are_counted_by_a_closed_set_of_labels",
            ],
            "E": ["cluster/test_webhook_again.py::test_a_bare_pod_applied_again_changes_nothing"],
        },
    ),
    Case(
        "B29",
        "An autoscaler does not know slots, and makes no node, or far too many.",
        {
            "D": [
                "docs/how-to/autoscaler.md#What to tell",
                "docs/how-to/autoscaler.md#How many nodes",
                "docs/how-to/autoscaler.md#A node that is there, and not ready yet",
            ],
            "C": [
                "contract/test_autoscaler.py::test_an_example_promises_what_the_plugin_offers",
                "contract/test_autoscaler.py::test_the_pages_counts_of_nodes",
            ],
        },
    ),
    Case(
        "B31",
        "The device list is too long for the kubelet, and the node shows nothing.",
        {
            "P": [
                "integration/test_plugin_process.py::test_a_list_that_the_kubelet_would_not_take",
                "integration/test_plugin.py::test_many_pods_at_once",
                "unit/plugin/test_servicer.py::"
                "test_the_number_of_cards_that_a_sentence_gives_is_what_the_kubelet_takes",
                "unit/plugin/test_servicer.py::"
                "test_sixteen_cards_take_a_fiftieth_of_what_a_message_may_have",
                "unit/vgpu/test_slots.py::test_a_card_whose_ids_would_be_too_long_is_refused",
            ],
        },
    ),
    Case(
        "B32",
        "Fields of a newer API are lost on the way through.",
        {
            "U": [
                "unit/webhook/test_cases_patches.py::"
                "test_what_was_written_is_still_there_but_for_the_ask",
                "unit/webhook/test_laws.py::"
                "test_only_what_is_ours_changes_and_unknown_fields_survive",
                "fuzz/test_fuzz.py::test_every_answer_is_what_the_oracle_says",
            ],
            "E": [
                "cluster/test_webhook_cases.py::test_nothing_is_lost_and_nothing_else_is_added",
            ],
        },
    ),
    Case(
        "B34",
        "A controller's pod has no name yet and no namespace in itself.",
        {
            "U": [
                "unit/webhook/test_cases_reviews.py::"
                "test_a_name_and_a_namespace_need_not_be_in_the_object",
                "unit/webhook/test_pod_update.py::"
                "test_the_new_pod_of_a_controller_gets_everything_all_the_same",
                "unit/webhook/test_admission.py::"
                "test_a_pod_that_has_no_name_yet_is_logged_by_its_prefix",
            ],
            "E": ["cluster/test_node_kinds.py::test_pods_of_every_kind_run_with_their_share"],
        },
    ),
    Case(
        "B36",
        "A container loses its card hours later, since the runtime alone knew of the device.",
        {
            "P": [
                "unit/plugin/test_edits.py::test_a_card_is_handed_out",
                "unit/plugin/test_edits.py::test_only_device_files_that_there_are_are_handed_out",
            ],
            "E": [
                "cluster/test_node_cdi.py::"
                "test_device_nodes_bring_the_cards_own_file_to_the_container_with_the_share",
            ],
            "D": ["docs/how-to/hand-out-cards.md#Device files"],
        },
    ),
    Case(
        "B37",
        "A key with a slash is taken for two levels of a path.",
        {
            "U": [
                "unit/webhook/test_cases_patches.py::test_keys_with_slashes_and_tildes_are_one_key",
                "unit/webhook/test_patch.py::test_a_difference",
            ],
            "E": [
                "cluster/test_webhook_cases.py::test_nothing_is_lost_and_nothing_else_is_added",
            ],
        },
    ),
    Case(
        "B39",
        "A client that never finishes its handshake holds up everybody.",
        {
            "U": [
                "integration/test_gunicorn.py::"
                "test_idle_and_nonsense_connections_do_not_hold_up_admission",
                "integration/test_gunicorn.py::"
                "test_when_there_are_too_many_connections_idle_ones_make_room",
                "integration/test_gunicorn_hostile.py::"
                "test_a_handshake_that_is_not_finished_is_given_up",
                "integration/test_gunicorn_hostile.py::test_admission_goes_on_in_a_storm",
            ],
        },
    ),
    Case(
        "B41",
        "A list or map of the user's is replaced by ours.",
        {
            "U": [
                "unit/webhook/test_cases_patches.py::"
                "test_what_was_written_is_still_there_but_for_the_ask",
                "unit/webhook/test_environment.py::test_a_users_environment_survives_in_its_order",
            ],
            "E": [
                "cluster/test_webhook_cases.py::test_nothing_is_lost_and_nothing_else_is_added",
            ],
        },
    ),
    Case(
        "B42",
        "A security policy keeps the plugin from the kubelet's folder.",
        {
            "C": [
                "contract/test_deploy.py::test_pods_are_small_and_shut_in",
                "contract/test_chart.py::test_a_privileged_plugin_is_one_that_the_api_server_takes",
            ],
            "P": [
                "integration/test_plugin_process.py::test_a_folder_that_we_may_not_write_to",
                "integration/test_plugin_process.py::test_a_folder_that_cannot_be_used",
            ],
            "E": [
                "cluster/test_deploy_apply.py::test_pod_security_admits_our_pods",
                "cluster/test_deploy_helm.py::"
                "test_pod_security_admits_our_pods_whatever_the_values",
            ],
            "D": [
                "docs/reference/permissions.md#On the nodes",
                "docs/how-to/helm.md#Nodes that are different",
            ],
        },
    ),
    Case(
        "B44",
        "Shares slip past a quota, or init containers are counted wrong.",
        {
            "U": ["matrix/test_matrix.py::test_created"],
            "E": [
                "cluster/test_webhook_policies.py::test_a_quota_counts_what_a_share_takes",
                "cluster/test_node_policies.py::test_a_quota_holds_a_deployment_to_its_slots",
            ],
            "D": ["docs/how-to/quotas-and-limits.md#Limit what a namespace may have of the cards"],
        },
    ),
    Case(
        "B46",
        "In an update the old plugin takes the new one's socket along.",
        {
            "P": [
                "integration/test_plugin.py::test_two_plugins_take_turns",
                "integration/test_plugin.py::test_what_is_not_ours_any_more_is_not_removed",
                "integration/test_plugin.py::test_a_dead_socket_of_ours_is_no_obstacle",
                "integration/test_plugin_process.py::test_a_killed_plugin_is_replaced",
            ],
            "C": ["contract/test_deploy.py::test_never_two_plugins_on_a_node"],
        },
    ),
    Case(
        "B47",
        "Listeners that dropped off use up the plugin's threads.",
        {"P": ["integration/test_plugin.py::test_many_listeners_that_drop_off"]},
    ),
    Case(
        "B49",
        "A huge or hostile body ends the worker.",
        {
            "U": [
                "unit/webhook/test_app.py::test_the_longest_body_is_read",
                "unit/webhook/test_app.py::test_what_is_no_review_is_refused",
                "unit/webhook/test_app.py::test_big_bodies_are_thought_about_one_at_a_time",
                "unit/webhook/test_cases_reviews.py::test_a_big_legal_pod_is_answered",
                "unit/webhook/test_cases_reviews.py::"
                "test_of_limits_that_are_there_twice_the_last_count",
                "integration/test_gunicorn.py::test_a_chunked_body_without_end_is_cut_at_the_limit",
                "integration/test_gunicorn.py::test_a_body_over_the_limit_is_refused_unread",
                "integration/test_gunicorn_memory.py::test_bodies_over_the_limit_take_no_memory",
                "unit/webhook/test_hostile.py::test_time_and_answer_are_bounded",
                "fuzz/test_fuzz.py::test_no_body_is_a_bug",
            ],
        },
    ),
    Case(
        "B51",
        "A custom resource's own rules refuse a fraction before we see it.",
        {
            "U": [
                "matrix/test_matrix.py::test_created",
                "unit/webhook/test_limits.py::test_spellings_of_one_share",
                "unit/webhook/test_custom_resources.py::test_every_template_is_translated",
            ],
            "E": [
                "cluster/test_webhook_custom.py::"
                "test_without_the_webhook_the_kind_itself_refuses_an_ask",
                "cluster/test_webhook_custom.py::"
                "test_children_of_a_kind_without_the_setting_are_handled_when_they_are_made",
            ],
            "D": ["docs/how-to/custom-resources.md#Shares in custom resources"],
        },
    ),
    Case(
        "B52",
        "An annotation's value that is not text is refused in words that nobody understands.",
        {
            "U": [
                "matrix/test_matrix.py::test_created",
                "unit/webhook/test_annotations.py::"
                "test_a_value_that_is_not_text_is_denied_with_its_key",
            ],
            "C": ["contract/test_docs.py::test_annotations_in_examples_are_quoted"],
            "E": [
                "cluster/test_webhook_matrix.py::test_a_row",
                "cluster/test_symptoms.py::test_an_annotation_that_is_a_number",
                "cluster/test_symptoms.py::test_an_annotation_that_is_yes_or_no",
            ],
            "D": ["docs/how-to/troubleshooting.md#kubectl refuses the manifest"],
        },
    ),
    Case(
        "B54",
        "A container that comes after us is overlooked, for the pod bears our mark already.",
        {
            "U": [
                "unit/webhook/test_reinvocation.py::"
                "test_a_container_that_came_after_us_gets_its_share_and_the_others_are_left",
                "unit/webhook/test_annotations.py::test_the_main_container_is_decided_once",
            ],
            "C": ["contract/test_deploy.py::test_every_entry_calls_us_in_the_same_way"],
            "E": [
                "cluster/test_webhook_neighbours.py::test_a_bare_pod_gets_the_same_in_both_orders",
                "cluster/test_webhook_neighbours.py::"
                "test_what_was_decided_at_the_first_call_stays_decided",
            ],
        },
    ),
    Case(
        "B56",
        "Two cards, or one and a half, cannot be asked for, or give something else.",
        {
            "U": ["matrix/test_matrix.py::test_created"],
            "P": [
                "integration/test_plugin_cards.py::test_whole_cards",
                "integration/test_plugin_cards.py::"
                "test_pods_of_both_kinds_at_the_same_moment_never_have_the_same_card",
            ],
            "E": [
                "cluster/test_webhook_matrix.py::test_a_row",
                "cluster/test_webhook_matrix.py::test_a_row_where_no_whole_cards_are_served",
            ],
        },
        otherwise="whole cards are a resource of their own; one and a half is denied",
    ),
    Case(
        "B57",
        "The annotation stands on the workload instead of its template, and nobody says so.",
        {
            "U": [
                "matrix/test_matrix.py::test_created",
                "unit/webhook/test_annotations.py::"
                "test_an_annotation_on_the_workload_is_pointed_out",
                "unit/webhook/test_annotations.py::"
                "test_an_annotation_on_a_cron_jobs_job_template_is_pointed_out",
            ],
            "E": ["cluster/test_webhook_matrix.py::test_a_row"],
        },
    ),
    Case(
        "B59",
        "Cards of different size are taken for equal.",
        {
            "P": [
                "integration/test_nvml.py::test_cards_are_what_the_driver_says",
                "unit/plugin/test_edits.py::test_exact_values",
                "unit/plugin/test_series.py::test_a_share_of_another_card_is_another_amount",
                "integration/test_plugin_cards.py::"
                "test_series_of_containers_come_and_go_with_their_pods",
            ],
            "D": ["docs/how-to/whole-cards.md#Cards of different memory on one node"],
        },
    ),
    Case(
        "B61",
        "An installation that stops half-way leaves a webhook that nobody can reach.",
        {
            "C": ["contract/test_chart.py::test_what_is_rendered_depends_on_the_values_only"],
            "E": [
                "cluster/test_deploy_certs.py::test_what_others_undo_is_mended",
                "cluster/test_deploy_apply.py::test_in_whatever_order_it_arrives_nobody_else_waits",
            ],
        },
    ),
    Case(
        "B62",
        "A mark that a user wrote, or copied, is believed.",
        {
            "U": [
                "unit/webhook/test_reinvocation.py::test_a_mark_changes_nothing",
                "unit/webhook/test_reinvocation.py::"
                "test_a_fraction_that_disagrees_with_the_count_is_made_to_agree",
                "unit/webhook/test_reinvocation.py::"
                "test_a_copy_with_another_ask_is_denied_until_the_count_is_gone",
                "unit/webhook/test_annotations.py::test_the_record_is_never_read",
            ],
            "E": [
                "cluster/test_webhook_neighbours.py::test_marks_of_having_been_here_change_nothing",
                "cluster/test_webhook_neighbours.py::"
                "test_a_count_with_another_fraction_and_a_mark_is_made_to_agree",
            ],
        },
    ),
    Case(
        "B64",
        "A resize in place loses what we added, or is changed by us.",
        {
            "U": ["unit/webhook/test_admission.py::test_subresources_are_let_through"],
            "E": [
                "cluster/test_webhook_cases.py::"
                "test_a_resize_is_the_api_servers_and_the_share_stays",
                "cluster/test_deploy_conditions.py::test_a_pods_subresources_are_nobodys",
            ],
        },
    ),
    Case(
        "B66",
        "A namespace's LimitRange refuses what we add, and the user never wrote it.",
        {
            "U": [
                "unit/webhook/test_cpu.py::test_a_setting_caps_what_is_added",
                "unit/webhook/test_cpu.py::"
                "test_the_announcement_says_all_that_a_limit_range_may_refuse",
            ],
            "C": ["contract/test_deploy.py::test_pods_are_small_and_shut_in"],
            "E": [
                "cluster/test_webhook_policies.py::"
                "test_a_limit_range_first_fills_in_and_then_judges",
                "cluster/test_webhook_policies.py::"
                "test_what_refuses_a_bare_pod_is_said_with_its_reason",
                "cluster/test_webhook_policies.py::"
                "test_what_refuses_a_controllers_pod_is_said_to_the_controller",
                "cluster/test_webhook_capped.py::test_a_capped_limit_passes",
                "cluster/test_node_policies.py::"
                "test_what_keeps_a_deployments_pods_away_can_be_found",
            ],
            "D": ["docs/how-to/quotas-and-limits.md#LimitRange"],
        },
    ),
    Case(
        "B67",
        "Namespaces are chosen by a label that nobody sets.",
        {
            "C": ["contract/test_deploy.py::test_every_entry_calls_us_in_the_same_way"],
            "E": [
                "cluster/test_deploy_conditions.py::test_system_namespaces_are_left_alone",
                "cluster/test_deploy_conditions.py::"
                "test_our_own_and_opted_out_namespaces_are_left_alone",
            ],
        },
    ),
    Case(
        "B69",
        "One container's crash takes along the others on its card.",
        {
            "D": ["README.md#How hard a share holds"],
            "P": [
                "unit/plugin/test_health.py::test_a_programs_error_is_not_held_against_the_card",
                "integration/test_nvml.py::test_an_xid_takes_its_cards_slots_along_and_no_other",
                "integration/test_plugin_cards.py::"
                "test_an_error_of_one_containers_program_changes_nothing_for_its_neighbour",
            ],
        },
    ),
    Case(
        "B71",
        "The names of our pods' series are overwritten by those of what is scraped.",
        {"C": ["contract/test_chart.py::test_monitors_keep_our_labels"]},
    ),
    Case(
        "B72",
        "Each replica makes a CA of its own, and one of them is trusted.",
        {
            "U": ["unit/certs/test_keeper.py::test_several_at_once_agree"],
            "E": [
                "cluster/test_deploy_certs.py::"
                "test_three_at_once_agree_and_a_second_run_changes_nothing",
            ],
        },
    ),
    Case(
        "B74",
        "A hardened runtime ignores the variable that names the card.",
        {
            "P": [
                "unit/plugin/test_edits.py::test_a_card_is_handed_out",
                "unit/plugin/test_edits.py::test_whole_cards_come_once_each_by_the_drivers_number",
            ],
            "E": [
                "cluster/test_node_cdi.py::test_volume_mounts_name_the_card_to_the_runtime",
                "cluster/test_node_cdi.py::test_the_specs_environment_beats_the_pods",
            ],
            "D": ["docs/how-to/hand-out-cards.md#Close the hole"],
        },
    ),
    Case(
        "B76",
        "A patch meant for one container lands on another.",
        {
            "U": [
                "unit/webhook/test_cases_patches.py::test_only_the_container_that_asks_is_touched",
                "unit/webhook/test_patch.py::test_every_operation_is_at_what_it_is_about",
                "unit/webhook/test_workload_update.py::test_a_fault_moves_with_its_container",
            ],
            "E": [
                "cluster/test_webhook_neighbours.py::test_a_bare_pod_gets_the_same_in_both_orders",
            ],
        },
        otherwise="no `test` operations: a patch is applied to the very object that was sent",
    ),
    Case(
        "B77",
        "A Job's template, which may not change, is changed by us in an update.",
        {
            "U": [
                "unit/webhook/test_cases_reviews.py::"
                "test_a_template_is_what_it_was_under_other_settings",
                "unit/webhook/test_workload_update.py::"
                "test_a_manifest_applied_again_gives_the_stored_template",
                "unit/webhook/test_workload_update.py::test_a_job_from_before_keeps_its_template",
                "matrix/test_matrix.py::test_applied_again_unchanged",
            ],
            "E": ["cluster/test_webhook_matrix.py::test_a_row"],
        },
    ),
    Case(
        "B79",
        "A card's own readings are copied to each of its pods, and added up.",
        {"U": ["unit/plugin/test_series.py::test_a_card_is_told_once_without_a_pods_name"]},
    ),
    Case(
        "B81",
        "Nothing is offered or nothing fits, and nobody says why.",
        {
            "D": ["docs/how-to/troubleshooting.md#A node shows no slots, or too few"],
            "E": [
                "cluster/test_node_explain.py::test_why_a_pod_does_not_run_is_told",
                "cluster/test_node_symptoms.py::test_there_is_no_driver",
                "cluster/test_node_symptoms.py::test_the_settings_leave_all_cards_out",
                "cluster/test_node_symptoms.py::test_all_cards_are_in_mig_mode",
                "cluster/test_node_symptoms.py::test_all_cards_are_ill",
                "cluster/test_node_symptoms.py::test_another_plugin_lists_all_cards",
                "cluster/test_node_symptoms.py::test_no_node_has_the_label",
                "cluster/test_node_symptoms.py::test_the_setting_names_a_folder_that_is_not_there",
                "cluster/test_node_symptoms.py::test_the_node_has_no_such_folder",
                "cluster/test_node_symptoms.py::"
                "test_there_is_no_kubelet_or_one_that_does_not_want_us",
            ],
        },
    ),
    Case(
        "B82",
        "The manifests use versions of the API that are gone.",
        {
            "C": [
                "contract/test_deploy.py::test_every_object_has_its_kinds_schema",
                "contract/test_deploy.py::test_the_schemas_are_strict",
                "contract/test_chart.py::test_what_is_made_has_its_kinds_schema",
            ],
        },
    ),
    Case(
        "B84",
        "The runtime is not NVIDIA's: the variable is there and the device is not.",
        {
            "U": [
                "unit/webhook/test_scheduling.py::"
                "test_the_runtime_class_is_added_where_there_is_none",
            ],
            "P": ["unit/plugin/test_edits.py::test_a_card_is_handed_out"],
            "E": [
                "cluster/test_node_cdi.py::"
                "test_cdi_brings_the_card_to_the_container_with_the_share_and_to_no_other",
            ],
            "D": ["docs/how-to/hand-out-cards.md#See what a node has"],
        },
    ),
    Case(
        "B86",
        "How the user wants the pod scheduled is lost.",
        {
            "U": ["unit/webhook/test_scheduling.py::test_the_users_scheduling_survives"],
            "E": [
                "cluster/test_webhook_cases.py::test_nothing_is_lost_and_nothing_else_is_added",
            ],
        },
        otherwise="the tolerations of a setting are added after the user's own",
    ),
    Case(
        "B87",
        "A number is written as a number, or with a long tail, where text is wanted.",
        {
            "U": [
                "unit/webhook/test_cases_patches.py::test_numbers_are_written_as_short_text",
                "unit/webhook/test_laws.py::"
                "test_the_patch_makes_the_desired_object_under_strict_rfc_6902",
                "unit/vgpu/test_quantity.py::test_decimals_as_people_write_them",
            ],
        },
    ),
    Case(
        "B89",
        "The webhook may do far more in the cluster than it has to.",
        {
            "C": [
                "contract/test_deploy.py::test_rights_are_named_and_only_certs_has_any",
                "contract/test_deploy.py::test_only_certs_gets_a_token",
            ],
            "U": ["unit/webhook/test_app.py::test_nothing_else_is_there"],
            "E": [
                "cluster/test_deploy_certs.py::test_certs_may_do_what_it_must_and_nothing_else",
            ],
        },
        otherwise="metrics are served beside admission: they are of no pod's content",
    ),
    Case(
        "B91",
        "A probe speaks another scheme, or the certificate comes late.",
        {
            "C": ["contract/test_deploy.py::test_probes_ask_the_program_and_not_only_its_port"],
            "U": ["integration/test_gunicorn.py::test_it_waits_for_its_first_certificate"],
        },
    ),
    Case(
        "B92",
        "An init container's slots, asked for again, make a pod fail.",
        {
            "P": [
                "integration/test_plugin.py::test_an_init_containers_slots_are_used_again",
                "integration/test_plugin.py::test_calls_that_ask_for_nothing",
                "integration/test_plugin.py::test_bad_requests_are_refused",
                "unit/plugin/test_allocation.py::test_nothing_asked_nothing_given",
                "integration/test_plugin_cards.py::test_requests_at_the_edge",
                "integration/test_plugin_cards.py::"
                "test_an_init_containers_whole_card_is_used_again",
            ],
        },
    ),
    Case(
        "B94",
        "The variable names one card once for each slot.",
        {
            "P": [
                "integration/test_plugin.py::test_a_share_of_a_t4",
                "integration/test_plugin.py::test_slots_of_two_cards_are_refused_with_a_sentence",
                "unit/plugin/test_edits.py::test_whole_cards_come_once_each_by_the_drivers_number",
                "unit/plugin/test_servicer.py::"
                "test_cards_of_a_container_are_each_named_once_and_in_the_drivers_order",
            ],
        },
        otherwise="slots of two cards are refused; only of whole cards there are several to name",
    ),
    Case(
        "B96",
        "A certificate has no alternative names, and API servers refuse it.",
        {
            "U": [
                "unit/certs/test_issue.py::"
                "test_a_serving_certificate_is_for_our_service_and_signs_nothing",
                "unit/certs/test_issue.py::test_a_ca_may_sign_servers_and_nothing_else",
                "unit/certs/test_issue.py::test_key_serial_and_time_are_the_callers",
            ],
        },
    ),
    Case(
        "B97",
        "A key that everybody can read is shipped, and its certificate ends.",
        {
            "C": [
                "contract/test_deploy.py::test_no_key_and_no_certificate_is_in_the_file",
                "contract/test_keys.py::test_no_private_key_is_in_the_repository",
            ],
        },
    ),
    Case(
        "B99",
        "Something was changed, and no patch is sent.",
        {
            "U": [
                "unit/webhook/test_cpu.py::test_only_what_lacks_is_added",
                "unit/webhook/test_laws.py::"
                "test_the_patch_makes_the_desired_object_under_strict_rfc_6902",
            ],
        },
    ),
    Case(
        "B101",
        "A card's number is another one for the driver, for CUDA and for the plugin.",
        {
            "P": [
                "integration/test_nvml.py::test_cards_are_what_the_driver_says",
                "integration/test_plugin.py::test_a_share_of_a_t4",
                "integration/test_plugin_cards.py::test_how_a_card_is_handed_out",
                "unit/plugin/test_edits.py::test_whole_cards_come_once_each_by_the_drivers_number",
            ],
            "E": [
                "cluster/test_node_cdi.py::test_several_whole_cards_come_as_several_cdi_devices",
            ],
        },
    ),
    Case(
        "B102",
        "People who come from another product write decimals.",
        {
            "U": [
                "matrix/test_matrix.py::test_created",
                "unit/webhook/test_annotations.py::test_an_annotation_is_an_ask_of_a_pod",
                "unit/webhook/test_limits.py::test_spellings_of_one_share",
            ],
        },
        otherwise="1.0 is a whole card, where these are served",
    ),
]
