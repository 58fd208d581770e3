"""prudent"""
