"""Every setting of the program, and how tables become settings."""

from crawler.settings.load import SettingsError, Tables, as_tables, check_tables, nearest, settings_from
from crawler.settings.parts import (
    SCOPES,
    SEEN_KINDS,
    SEEN_LAYOUTS,
    SHAPING,
    CanonicalSettings,
    CrawlSettings,
    DashboardSettings,
    DurabilitySettings,
    FetchSettings,
    LinkSettings,
    PolitenessSettings,
    RetrySettings,
    RobotsSettings,
    SeenSettings,
    Settings,
)

__all__ = [
    "SCOPES",
    "SEEN_KINDS",
    "SEEN_LAYOUTS",
    "SHAPING",
    "CanonicalSettings",
    "CrawlSettings",
    "DashboardSettings",
    "DurabilitySettings",
    "FetchSettings",
    "LinkSettings",
    "PolitenessSettings",
    "RetrySettings",
    "RobotsSettings",
    "SeenSettings",
    "Settings",
    "SettingsError",
    "Tables",
    "as_tables",
    "check_tables",
    "nearest",
    "settings_from",
]
