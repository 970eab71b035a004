"""The command ``rfp``: one small file for each verb."""
