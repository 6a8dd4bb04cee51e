//! Page reclaim, generic over a machine.
