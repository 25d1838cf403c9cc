"""The order of the code, from low to high: of packages, and of the modules inside each.

A module imports only from packages above its own in this file, and inside its package only from modules that are named
before it. A new module needs a place behind all that it imports. The tests in ``test_repository`` say what is missing.
"""

from __future__ import annotations

MODULES: dict[str, str] = {
    "base": """
        faults native_switch named_stream printable units figures
        settings.leaving settings.hours settings.match settings.parts settings.timetable settings.sites
        settings.removed settings.load
        settings.live
        kv clock entropy memory native same_program parent_death
        processes.frames processes.child processes.forker processes.fair_line processes.lane
        disk say queued_stream
        carrier.verbs carrier.memory_carrier carrier.local_frames carrier.local_server carrier.local_client
        carrier.engine_address carrier.redis_link carrier.redis_servers carrier.redis_carrier
        carrier.open_carrier
    """,
    "url": """
        urls.request_name urls.host_key urls.opt_in_rules urls.normalising_steps urls.whatwg urls.typed urls.clean
        urls.domain urls.base
        urls.canonicaliser
        robots.path_patterns robots.directives
        refusal.special_addresses refusal.forbidden_targets
        consent.statements consent.terms robots.parse
        scope.modes scope.globs scope.patterns scope.url_sites scope.boundary scope.bounds scope.priority_rules
        scope.rule_faults scope.store_choice
    """,
    "frontier": """
        recrawl.change_rate recrawl.visit_value
        cookie_chain
        entry fair_semaphore order page sitemap_dates visit_times politeness request_outcome
        retries limits states
        host outage revisits postponement backoff_policy host_closed opic_score slot_share
        capacity
        host_session domain_shares front_queues working_set lease own_times host_keys send_times
        gate queues host_status pace workbench
        ad_hoc_lease overrides frontier
        traps.counts traps.copies traps.origins traps.shape traps.soft404 traps.challenges
        traps.ids traps.traps rendering.recall rendering.rendering_odds
    """,
    "web": """
        links.refresh links.headers links.about links.described links.embedded links.scan_tags links.encoding
        links.sitemap
        links.extract links.markdown_links links.tokens links.query links.text
        links.script_signs
        archive.labels archive.record_layout archive.http_block archive.exchange_records archive.gzip_member
        archive.payloads archive.warc_reader archive.surt archive.cdxj
        parsing.wire parsing.parser_child parsing.pages
        browser.rendered browser.asked browser.http_cache browser.engines browser.pipe
        browser.process browser.tab
        browser.lightpanda browser.browser
        identity.keys identity.signer identity.directory
        fetch.late_authorities
        fetch.outcome fetch.body_memory fetch.content_coding fetch.capture fetch.lenient fetch.patience
        fetch.secret
        fetch.proxies fetch.cookies fetch.socks fetch.tls_sessions fetch.request_profiles
        fetch.kept fetch.fence fetch.connector
        fetch.body_reader fetch.robots_answers fetch.failures fetch.robots_fetch fetch.fetcher
        extract.edges extract.page_text extract.language extract.main_content extract.structured
        extract.main_text extract.by_trafilatura extract.text_child extract.text_pool
    """,
    "seen": """
        slices.digest_batch slices.digests slices.compiled slices.errors slices.sampling
        slices.key_hash slices.fpp_model slices.bit_storage slices.blocked_slice slices.classic_slice
        slices.cow_snapshot slices.table_slice slices.contract slices.counting_slice slices.cuckoo_slice
        slices.guava_slice slices.layouts
        filters.chain_compaction filters.protocol filters.segment_format filters.guava filters.planning
        filters.filter_file filters.slice_entry filters.watched_keys filters.chain
        filters.key_filter filters.bloom filters.scalable filters.counting filters.cuckoo
        filters.digest_table filters.kinds
        exact.rows exact.recent exact.ledger exact.seen
        shared.shard_geometry shared.shard_requests shared.shard_scripts shared.shared_set shared.set_figures
        shared.set_address shared.redis_shards shared.redis_bloom shared.open_set shared.transfer
    """,
    "job": """
        metrics.catalogue metrics.outlook records found
        survey.record_kinds survey.top_rows survey.path_map survey.survey
        metrics.events metrics.history metrics.prometheus metrics.sentences
        metrics.attention metrics.crawl_history metrics.pooled_stats
        store.wal store.store_budget
        store.rocks store.readable_copy
        checkpoint.envelope checkpoint.generations
        output.seekable_zstd output.record_text output.appended_file output.rotated_files
        output.page_files output.record_reader output.body_files output.outputs output.changes output.finished
        output.reverse_reader
        partition.placement partition.messages partition.link_batch_codec
        partition.outbox
        partition.inlet partition.router partition.end_rounds partition.quota partition.rate_shares
        partition.notes partition.part_report
        steps.seal steps.step_codec
        clock_anchor directory receiving crawl_file identity
        job_lock event_log left_out history_file
        markdown_files inbox scope_state seen_compaction stored_errors step_log transaction
        platform
        admission live_status last_command recovery run_settings snapshot open_files
        checkpointer seen_figures revisit requeue follower verdict parsing_notes job
        seeds_mark durable_frontier division
        bucket.objects bucket.directory_objects bucket.cloud_objects bucket.address bucket.layout bucket.pieces
        bucket.log_objects bucket.snapshots bucket.restoration bucket.ownership bucket.tidying bucket.crawl_split
        bucket.keeping
    """,
    "inspect": """
        host_states statistics hosts_now host_table host_settings job_reader
        crawl_partitions known_urls explanation record_stream survey_reader crawl_reader
        export.columns job_view
        export.kept_parts
        integrity.finding integrity.output_files integrity.inventory
        integrity.rebuild
        integrity.verifier integrity.repairer
        export.beside
        export.tables
        export.sql_query export.markdown_export export.report_page
        export.job_report export.csv_file page_texts
        export.wacz export.web_archive
        broken_links
        crawl_backup audit
    """,
    "engine": """
        rendering.renderer slots fair_turns loop_lag reading page_reader archiving seed_lines
        seeds links_and_redirects judge understanding membership ending ledger_resolver lifecycle handed_page
        link_judge
        user_code failing_seeds outage_detector context injector gauges checkpoint_loop
        rendering.borrowing robots_redirect robots_visit rendering.sub_requests
        keepers kept_pages extracting_again on_disk focusing page_delivery
        rendering.page_rendering visit run
        rate run_schedule worker
        hooks.named_code hooks.page_view hooks.answers hooks.calls hooks.thread_calls hooks.loop_calls
        hooks.page_child hooks.process_calls hooks.hook_failures hooks.call_watch hooks.on_page hooks.asking
        hooks.requests
        hooks.focus hooks.loaded
    """,
    "cluster": """
        reach claims stored_partitions member_options open_partition tally sender quota_coordinator
        robots_coordinator
        receiver
        seats end_watch step_aside drain_file
        worker_name rate_coordinator time_left partition_life member crawl_directory
        agreement stored_crawl
        worker_channel
        worker_supervisor
    """,
    "service": """
        dashboard.event_stream dashboard.feed dashboard.access dashboard.guard
        dashboard.http_server
        dashboard.token dashboard.live_server dashboard.job_list
        progress.text_table progress.summary progress.supervisor progress.top_view
        progress.live_line
        background
        ending_signals explanation_text host_page status_reporter commands snapshot_request view_errors
        view_answers job_seeds report_maker job_survey source file_source run_view api
        survey_api shown_source watched_jobs
        notices record_pipe reloading file_limit opening facade progress.last_lines resumed shown_run
        session
        crawl_progress carrier_reports worker_session engine_crawl engine_source
    """,
    "tools": """
        demo.hosts demo.web
        bench.process_cost bench.synthetic_web bench.synthetic_server bench.crawl_truth bench.synthetic_crawl
        dedup.key_spec dedup.lines dedup.digest_file dedup.store dedup.chain_rebuild
        dedup.exchange dedup.filter_setup dedup.stream dedup.build
        scrapy.job_settings scrapy.spider_status scrapy.upkeep scrapy.request_job scrapy.request_rows
        scrapy.start_requests scrapy.in_progress scrapy.dupefilter scrapy.scheduler
    """,
    "cli": """
        exit_codes command_parser interruptible help_text contact toml_lines pattern_files named_urls named_seeds
        damaged_job url_batches
        add retry priority config backup split options bench subject retract audit export sql report
        plan
        repair
        canon browser serving after_run reporting partitioned drain crawl check work launches dashboard agent_tools mcp
        shared_filter dedup explain forget hosts identity reload restore stats tail text top verify demo filter
        completion by_address
    """,
    "library": """
        deliveries keyword_options crawl_options crawl_loop crawl_result blocking
    """,
}

# Names at the top for users and tools: they may import anything, and nothing imports them.
SURFACE = ("filters", "scrapy", "__main__")
