# No types to declare: the class is a plain Python one, its methods are compiled.
