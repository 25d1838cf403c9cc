"""The order of the code, from low to high: of packages, and of the modules inside each.

A new module needs a place in ``MODULES``, a new package one in ``LAYERS`` too: behind all that it imports. The tests in
``test_repository`` say what is missing, and what imports something that stands behind it.
"""

from __future__ import annotations

# A package imports only from lower lines.
LAYERS: list[set[str]] = [
    {"native_switch"},
    {"urls", "settings", "clock", "memory", "parent_death", "same_program", "kv", "figures", "native"},
    {"slices", "robots", "refusal", "recrawl"},
    {"filters"},
    {"links", "scope", "frontier"},
    {"traps"},
    {"records"},
    {"found"},
    {"survey"},
    {"disk", "metrics", "archive"},
    {"store", "checkpoint", "output", "fetch", "parsing", "dashboard", "progress", "exact", "carrier"},
    {"extract", "partition", "shared", "replica"},
    {"job"},
    {"inspect"},
    {"engine", "integrity", "export"},
    {"cluster"},
    {"service"},
    {"hooks"},
    {"demo", "bench", "dedup", "backup", "scrapy"},
    {"cli"},
    {"library"},
    {"__main__"},
]

# Inside a package, a module imports only from modules that are named before it.
MODULES: dict[str, str] = {
    "urls": """
        request_name host_key rules steps whatwg typed clean domain base canonicaliser
    """,
    "settings": """
        parts leaving hours timetable match sites load live
    """,
    "robots": """
        path_patterns parse directives
    """,
    "slices": """
        digest_batch digests entropy compiled errors sampling key_hash fpp_model bit_storage blocked_slice classic_slice
        cow_snapshot table_slice contract counting_slice cuckoo_slice guava_slice layouts
    """,
    "filters": """
        chain_compaction protocol segment_format advisor guava filter_file slice_entry watched_keys chain
        memory_budget projection key_filter bloom scalable counting cuckoo digest_table kinds
    """,
    "links": """
        encoding sitemap refresh headers about described embedded tags extract tokens query text
    """,
    "extract": """
        edges page_text main_text text_child text_pool
    """,
    "recrawl": """
        change_rate visit_value
    """,
    "refusal": """
        addresses own_rules
    """,
    "parsing": """
        wire child_process parser_child process fair_line pages
    """,
    "partition": """
        placement replica_homes messages parcel_codec outbox inlet router end_rounds quota rate_shares group_turns
        replica_values notes part_report byte_rate
    """,
    "replica": """
        seal step_codec copy_pieces replica_codec
    """,
    "carrier": """
        verbs memory_carrier local_frames local_server local_client engine_address redis_link
        redis_servers redis_carrier open_carrier
    """,
    "shared": """
        pieces shard_requests shard shard_scripts shared_set set_figures set_address redis_shards redis_bloom open_set
        transfer
    """,
    "scope": """
        modes globs patterns url_sites boundary bounds priority_rules rule_faults store_choice
    """,
    "frontier": """
        entry fair_semaphore jitter timer_queue order page signals visit_times politeness
        request_outcome limits host outage revisits postponement backoff_policy host_closed refused_hosts
        importance places slot_share serving host_session domain_shares schedule working_set lease site_rate own_times
        host_keys send_times address_gap group_leases domain_tallies gate
        queues tries_ahead host_status pace workbench waiting_line watchdog ad_hoc_lease overrides frontier
    """,
    "traps": """
        counts domains copies origins shape soft404 walls traps
    """,
    "survey": """
        record_kinds top_rows path_map wrong_now survey
    """,
    "disk": """
        failpoints full private regular expendable files faulty_disk
    """,
    "metrics": """
        events history even_counts prometheus sentences attention countdown notice_watch course pooled_stats
    """,
    "store": """
        symlink_overlay closed_copy memory_store wal faulty_store store_budget rocks salvage
    """,
    "checkpoint": """
        envelope generations renewal
    """,
    "output": """
        seekable_zstd record_text appended_file jsonl rotated_files page_files record_reader body_files outputs
        changes finished reverse_reader
    """,
    "archive": """
        labels warc_record http_block capture_records gzip_member payloads warc_reader surt cdxj
    """,
    "exact": """
        rows recent ledger seen
    """,
    "fetch": """
        outcome body_memory content_coding capture lenient patience secret proxies cookies socks tls_sessions ways kept
        fence connector
        bodies robots_cache failures robots_fetch fetcher simulated
    """,
    "dashboard": """
        event_stream feed listen access guard http_server token server job_list
    """,
    "progress": """
        named_stream printable say text_table summary supervisor wrapped top_view live_line
    """,
    "job": """
        clock_step clock_anchor digest_sum directory kept_steps receiving formats crawl_file home_register identity
        former job_lock replica_moves
        crawl_at_rest event_log border held_back history_file survey_file inbox
        platform shared_platform revisit_backfill scope_state seen_compaction stored_errors transaction
        step_log journal_search promises
        admission live_status last_command recovery rekey conversion run_settings snapshot open_files checkpointer
        revisit returning replica_generations follower verdict parsing_notes suspects reclass job seeds_mark
        durable_frontier copy_target
        job_copy spool
    """,
    "inspect": """
        beginning statistics hosts_now host_table host_outlook sort_values host_settings host_states job_reader
        crawl_partitions known_urls explanation record_stream record_choice survey_reader crawl_reader crawl_tail
        job_view crawl_explained crawl_survey crowded_domain
    """,
    "engine": """
        capacity_forecast slots turns loop_lag reading page_reader heading archiving stored_body describing seed_lines
        seeds discover judge understanding membership ending ledger_resolver lifecycle page_handler link_judge
        user_code own_line said_once context proxy_watch injector gauges durability robots_redirect robots_visit keeping
        on_disk focusing change_check handing_over visit run put_aside rate rota worker
    """,
    "cluster": """
        reach ownership member_options open_partition next_door tally sender quota_desk robots_desk turn_desk receiver
        seats end_watch replica_slots homes deserted slot_sending copy_sending log_sending replica_directory
        partition_opening replica_life replicas step_aside moves older_copies promotion forgetting drain_file
        worker_name rate_desk time_left partition_life member crawl_directory settings_file agreement
        worker_channel worker_supervisor
    """,
    "integrity": """
        finding change record_files part_reader inventory quarantine url_marks digest_rows revisit_rows output_files
        reconcile verifier crawl_verifier repairer crawl_repairer left_out
    """,
    "export": """
        final_records last_records columns kept_parts beside parquet time_line crawl_figures markup
        report_page job_report cells sorted_lines wacz web_archive
    """,
    "service": """
        ending_signals explanation_text host_page status_reporter commands command_files snapshot_request view
        view_answers own_share api record_counter survey_store survey_answer record_news job_seeds job_survey
        report_child report_maker downloads survey_api attach watched_crawl launching watched_jobs job_api run_view
        webhook notices record_pipe reloading opening file_limit front resumed kept_open shown_run session
        crawl_progress answering worker_session engine_crawl watched_engine
    """,
    "backup": """
        layout copying body_copies back_up restoration crawl_backup
    """,
    "hooks": """
        named_code page_view answers calls thread_calls loop_calls page_child process_calls hook call_watch on_page
        asking requests score_batches focus loaded
    """,
    "library": """
        deliveries page_data delivered_page keyword_options crawl_loop blocking
    """,
    "demo": """
        modules pydoc_child render html_answers site news trouble web
    """,
    "bench": """
        child floor machine made_pages peer_crawlee peer_scrapy scripts stage_samples loopback_run synthetic_web
        made_certificates synthetic_server crawl_truth contenders synthetic_crawl crawl_report bench_crawl
    """,
    "dedup": """
        interrupt key_spec lines lookout digest_file store chain_rebuild exchange bit_strings filter_setup stream
        shared_stream build_process build
    """,
    "scrapy": """
        job_settings spider_status upkeep request_job request_rows start_requests in_progress item_feeds dupefilter
        scheduler
    """,
    "cli": """
        exit_codes interruptible help_text contact toml_lines pattern_files named_urls named_seeds damaged_job parcels
        add retry priority bench config backup options subject export report integrity_text command_words plan repair
        canon browser parquet_after reporting partitioned
        drain crawl work launches dashboard slice_table shared_filter dedup explain forget hosts reload restore stats
        tail top verify demo filter completion
    """,
}
