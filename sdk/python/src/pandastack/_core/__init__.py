"""The API's operations and objects, written from its OpenAPI document."""
