"""Figures as records, tables, pictures and pages, and what they were measured on."""
