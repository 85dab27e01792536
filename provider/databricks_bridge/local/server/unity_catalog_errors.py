"""Unity Catalog's own words for what is not there, is there already, or is in the way."""

from __future__ import annotations

from databricks_bridge.local.server.errors import ApiError


class CatalogDoesNotExist(ApiError):
    status, error_code = 404, "CATALOG_DOES_NOT_EXIST"


class SchemaDoesNotExist(ApiError):
    status, error_code = 404, "SCHEMA_DOES_NOT_EXIST"


class TableDoesNotExist(ApiError):
    status, error_code = 404, "TABLE_DOES_NOT_EXIST"


class VolumeDoesNotExist(ApiError):
    status, error_code = 404, "VOLUME_DOES_NOT_EXIST"


class ShareDoesNotExist(ApiError):
    status, error_code = 404, "SHARE_DOES_NOT_EXIST"


class LocationDoesNotExist(ApiError):
    status, error_code = 404, "EXTERNAL_LOCATION_DOES_NOT_EXIST"


class CatalogAlreadyExists(ApiError):
    status, error_code = 409, "CATALOG_ALREADY_EXISTS"


class SchemaAlreadyExists(ApiError):
    status, error_code = 409, "SCHEMA_ALREADY_EXISTS"


class VolumeAlreadyExists(ApiError):
    status, error_code = 409, "VOLUME_ALREADY_EXISTS"
